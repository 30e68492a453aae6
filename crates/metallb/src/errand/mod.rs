//! What an admin has done once, from a command line: plans, without I/O.
//!
//! - [`migrate`]: a class of the old form names its pool from now on (contract §8);
//! - [`release`]: Services and addresses can be deleted without the driver (§11);
//! - [`adopt`]: what a running Service has becomes a claim's (§12);
//! - [`trial`]: a claim, a handoff and a release, to see that all of it works.
//!
//! **Invariant:** an errand is decided like everything else, from what the cluster shows. Whatever prefix of its
//! steps was done, planning again gives the rest of them, and nothing when all are done.

pub mod adopt;
pub mod migrate;
pub mod release;
pub mod trial;

use std::sync::Arc;

use kube::core::DynamicObject;
use plan::Action;
use serde_json::Value;

/// What is to be done, and what is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errand {
    /// In order. Empty when all is done.
    pub steps: Vec<Step>,
    /// What to know about it.
    pub notes: Vec<String>,
    /// What is not done, and the way out: one sentence each.
    pub refused: Vec<String>,
}

/// One write, and the line that tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Names the object and what becomes of it.
    pub line: String,
    /// The write.
    pub write: Write,
}

/// The write of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Of an object that the controllers know.
    Known(Box<Action>),
    /// A merge patch of an object of MetalLB that no controller reads, in exactly this version.
    Foreign {
        /// The object.
        object: Arc<DynamicObject>,
        /// The merge patch, without the preconditions.
        body: Value,
    },
    /// Known in full when the steps before it are done: plan anew then.
    Later,
}

impl Write {
    fn known(action: Action) -> Self {
        Self::Known(Box::new(action))
    }
}

impl Errand {
    fn step(&mut self, line: impl Into<String>, write: Write) {
        self.steps.push(Step { line: line.into(), write });
    }
}
