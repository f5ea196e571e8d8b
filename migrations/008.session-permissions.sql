-- What holds in a session: its last sandbox/mode, approval/policy and permission/preset, which must outlive those events when retention
-- takes them. Null: none was ever said, so the deployment's default holds (backends.md §11.1, §12; core.md §25.5).
ALTER TABLE sessions ADD COLUMN sandbox_mode TEXT;
ALTER TABLE sessions ADD COLUMN approval_policy TEXT;
ALTER TABLE sessions ADD COLUMN preset TEXT;

UPDATE sessions SET sandbox_mode = said.value FROM (
  SELECT session, max(seq), data ->> '$.mode' AS value FROM events
  WHERE type = 'sandbox/mode' AND typeof(data) = 'text' AND json_valid(data) GROUP BY session
) AS said WHERE said.session = sessions.id;

UPDATE sessions SET approval_policy = said.value FROM (
  SELECT session, max(seq), data ->> '$.policy' AS value FROM events
  WHERE type = 'approval/policy' AND typeof(data) = 'text' AND json_valid(data) GROUP BY session
) AS said WHERE said.session = sessions.id;

UPDATE sessions SET preset = said.value FROM (
  SELECT session, max(seq), data ->> '$.preset' AS value FROM events
  WHERE type = 'permission/preset' AND typeof(data) = 'text' AND json_valid(data) GROUP BY session
) AS said WHERE said.session = sessions.id;
