//! (map comes with the first machine)
