//! Weights and state dicts (in construction).
