-- Splits the text of an error into the class of the exception and the message, and replaces what differs from one
-- failure to the next: two messages that differ in an id are one group.
--
--   ValueError: order 17 of 'ann' is 2.50 short     ValueError    order <number> of <string> is <number> short
--   worker web-1:4711 did not renew its lease …                   worker <worker> did not renew its lease …
--
-- What tells errors apart stays: status codes, signals and the like; identifiers in double quotes, which name columns
-- and constraints; and in errors of the code itself, such as AttributeError, those in single quotes.
--
-- It reads 1,000 characters at most, and no pattern here is nested, so hostile text costs no more than other text.
create or replace function treadle.normalise_error(
    p_error text,
    p_worker_id text default null,
    out exception text,
    out message text
)
language plpgsql immutable parallel safe
as $$
declare
    c_read constant int := 1000;
    c_kept constant int := 300;
    -- Not preceded or followed by a letter, so that the apostrophe of "can't" begins no string.
    c_string constant text := '(?<![A-Za-z0-9])''[^'']*''(?![A-Za-z0-9])';
    c_string_unless_name constant text := '(?<![A-Za-z0-9])''(?![A-Za-z_.]+'')[^'']*''(?![A-Za-z0-9])';
    v_text text := btrim(regexp_replace(left(p_error, c_read), '[[:cntrl:][:space:]]+', ' ', 'g'));
begin
    if length(p_worker_id) > 2 then
        v_text := replace(v_text, p_worker_id, '<worker>');
    end if;

    exception := coalesce(substring(v_text from '^((?:[A-Za-z_][A-Za-z0-9_]*[.])*[A-Z_][A-Za-z0-9_]*)(?:: |:?$)'), '');
    if length(exception) > 100 then
        exception := '';
    end if;
    if exception <> '' then
        v_text := ltrim(substr(v_text, length(exception) + 1), ': ');
    end if;

    v_text := regexp_replace(v_text, '(://[^][/?#"''<> ]+)[^]"''<>) ]+', '\1/<path>', 'g');
    v_text := regexp_replace(
        v_text,
        case
            when exception ~ '^(Key|Attribute|Name|UnboundLocal|Type|Import|ModuleNotFound)Error$' then c_string_unless_name
            else c_string
        end,
        '<string>', 'g'
    );
    v_text := regexp_replace(v_text, '(?<![A-Za-z0-9])"(?![A-Za-z_.]+")[^"]*"(?![A-Za-z0-9])', '<string>', 'g');
    if length(p_error) > c_read then
        -- The end of a string may be beyond what was read.
        v_text := regexp_replace(v_text, '(?<![A-Za-z0-9])["''][^"'']*$', '<string>');
    end if;
    v_text := regexp_replace(v_text, '[A-Za-z0-9_.+-]+@[A-Za-z0-9.-]+', '<address>', 'g');
    v_text := regexp_replace(
        v_text,
        '[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?( ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?)?',
        '<time>', 'g'
    );
    v_text := regexp_replace(v_text, '(?<![A-Za-z0-9.])([A-Za-z]:)?([/\\][A-Za-z0-9_.@%+~-]+){2,}[/\\]?', '<path>', 'g');
    v_text := regexp_replace(v_text, '0x[0-9A-Fa-f]+', '<hex>', 'g');
    -- Letters and digits, at least eight of them: ids, digests, tokens.
    v_text := regexp_replace(
        v_text,
        '(?<![A-Za-z0-9_-])(?=[A-Za-z_-]*[0-9])(?=[0-9_-]*[A-Za-z])[A-Za-z0-9_-]{8,}', '<id>', 'g'
    );
    v_text := regexp_replace(v_text, '[0-9]{6,}([.,:][0-9]+)*', '<number>', 'g');
    v_text := regexp_replace(
        v_text,
        '(?<![0-9])(?<!(errno|status|code|signal|http|http error|sqlstate)[ ]?[:=]?[ ]?)[0-9]+([.,:][0-9]+)*(?![0-9])(?! (client|server) error)',
        '<number>', 'gi'
    );
    -- A list of values, however many.
    v_text := regexp_replace(v_text, '<[a-z]+>(, ?<[a-z]+>)+', '<values>', 'g');
    message := left(btrim(v_text), c_kept);
end
$$;
