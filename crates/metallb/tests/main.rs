//! The driver's decisions against a world in memory: the contract, row by row.

mod rows;
mod world;
