//! The `main` of a command that does one thing under an admin's own rights.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use kube::Config;

use crate::args::Admin;
use crate::{Hand, SetupError, setup};

/// Does one thing and ends. The exit code is 0 when it succeeded; else standard error says why not.
pub fn once(
    program: &str,
    manager: &str,
    args: &Admin,
    errand: impl AsyncFnOnce(Hand) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    end(program, manager, setup::admin_config(args), errand)
}

/// The same for what may run in a pod too: without a kubeconfig file, what kubectl would use, or the pod's service account.
pub fn once_anywhere(
    program: &str,
    manager: &str,
    kubeconfig: Option<&Path>,
    errand: impl AsyncFnOnce(Hand) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    end(program, manager, setup::cluster(kubeconfig), errand)
}

fn end(
    program: &str,
    manager: &str,
    config: impl Future<Output = Result<Config, SetupError>>,
    errand: impl AsyncFnOnce(Hand) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map_err(Box::from).and_then(|runtime| {
        runtime.block_on(async {
            let client = setup::patient_client(config.await?)?;
            errand(Hand::new(client, manager)).await
        })
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}
