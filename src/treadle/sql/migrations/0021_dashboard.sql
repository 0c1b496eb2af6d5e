-- The audit groups the rows of one act, such as a change of thousands of jobs, and refuses to carry one out twice.
alter table treadle.audit
    add column act uuid,
    add column begins boolean not null default true;

comment on column treadle.audit.act is 'The act that this row belongs to: a change of several jobs has one for all of them, also if it is made in several transactions. Null: the row is an act of its own.';
comment on column treadle.audit.begins is 'Whether this is the first row of its act. The audit page lists those.';

-- A form that is submitted twice is carried out once.
create unique index idx_audit_acts on treadle.audit (act) where begins and act is not null;
-- The newest acts.
create index idx_audit_begins on treadle.audit (id) where begins;
-- The rows of an act.
create index idx_audit_act on treadle.audit (act, id) where act is not null;

-- It has two more parameters.
drop function if exists treadle.operate(varchar, uuid[], text, text, int);
