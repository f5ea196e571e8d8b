-- The calls that have not ended, by session: what is asked about a session must not read all that it ever called. No statement looks for
-- the calls of a turn.
DROP INDEX calls_not_done;
CREATE INDEX calls_not_done ON calls (session, state) WHERE state <> 'done';
DROP INDEX calls_by_turn;
