//! Neural-network modules (in construction).
