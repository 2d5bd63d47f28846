-- Reads the word that every value of a name space carries.
-- Returns {epoch, drops, expiries, clock, now in ms}.
local w, refused = space()
return refused or answer(w)
