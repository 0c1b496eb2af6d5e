-- Large payloads and results by reference: stored objects, their bytes, and which jobs use them.

create table treadle.stored (
    id          uuid primary key,
    size        bigint,
    digest      text,
    name        varchar(200),
    place       text,
    created_at  timestamptz not null default clock_timestamp(),
    written_at  timestamptz not null default clock_timestamp(),
    removing_at timestamptz
) with (fillfactor = 70);

comment on table treadle.stored is 'One row a stored thing: what Stored in a payload or a result refers to.';
comment on column treadle.stored.size is 'How many bytes; null until all of them are written, and until then nobody can refer to it.';
comment on column treadle.stored.digest is 'SHA-256, in hexadecimal.';
comment on column treadle.stored.place is 'The folder or object store (a URL) that its file is in; null: its bytes are in stored_parts.';
comment on column treadle.stored.written_at is 'When something was last written to it. Nothing is swept for a while after that.';
comment on column treadle.stored.removing_at is 'It is being removed, and cannot be used any more; when the removal of its file was last begun.';

-- Serves sweep_stored: the objects that are being removed, few at any time.
create index idx_stored_removing on treadle.stored (removing_at)
    where removing_at is not null;

create table treadle.stored_parts (
    stored_id uuid not null references treadle.stored,
    part      int not null,
    bytes     bytea not null,

    primary key (stored_id, part)
);

-- Not compressed: large data mostly is already, and a part is always read and written whole.
alter table treadle.stored_parts alter column bytes set storage external;

comment on table treadle.stored_parts is 'The bytes of what is stored here: 256 kB a part, numbered from 0, the last one shorter.';

create table treadle.stored_uses (
    stored_id uuid not null references treadle.stored,
    job_id    uuid not null,

    -- Serves sweep_stored: whether there is a use.
    primary key (stored_id, job_id)
);

comment on table treadle.stored_uses is 'Which job needs what is stored. A use goes with its job; without one the stored thing is swept.';

-- Serves drop_belongings: the uses of a job.
create index idx_stored_uses_job on treadle.stored_uses (job_id);
