//! The MetalLB driver: holds addresses in the books of MetalLB and hands them to Services.

fn main() {}
