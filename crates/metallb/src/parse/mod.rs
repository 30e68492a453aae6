//! Small typed views of what other people write: pools, Services, class parameters.

pub mod class;
pub mod pool;
pub mod service;
