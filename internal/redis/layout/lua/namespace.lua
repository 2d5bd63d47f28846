-- Reads the namespace state, which every value carries.
-- Returns {epoch, drops, expiries, clock, now in ms}.
local w, refused = space()
return refused or answer(w)
