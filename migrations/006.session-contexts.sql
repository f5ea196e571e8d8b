-- Contexts that wait for the session's next step, as JSON text; null when there are none (core.md §24.1).
ALTER TABLE sessions ADD COLUMN contexts ANY;
