//! The certificate that is shown: one made at the start, or that of two files, and a new one as soon as they hold one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest, Sha256};

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; --metrics-cert-path names the folder of {CERTIFICATE} and {KEY}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds something else.
    #[error("{path} holds no {what} in PEM: {source}")]
    Pem {
        /// The file.
        path: String,
        /// What it was to hold.
        what: &'static str,
        /// Why.
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key cannot be used together.
    #[error("the certificate of the metrics cannot be used: {0}")]
    Pair(#[from] rustls::Error),
    /// None can be made.
    #[error("cannot make a certificate for the metrics: {0}; give one by --metrics-cert-path")]
    Made(#[from] rcgen::Error),
}

/// The newest certificate there is.
pub(super) struct Certificates {
    folder: Option<PathBuf>,
    shown: Mutex<Shown>,
}

struct Shown {
    config: Arc<ServerConfig>,
    /// What the files held when they were looked at last, whether or not it could be used; none if they could not be read.
    seen: Option<[u8; 32]>,
}

/// What two files hold.
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificates {
    /// That of a folder, or one that is made now, of nobody's authority.
    pub(super) async fn open(folder: Option<&Path>) -> Result<Self, CertificateError> {
        let shown = match folder {
            Some(folder) => {
                let files = Files::read(folder).await?;
                Shown { config: files.config(folder)?, seen: Some(files.digest()) }
            }
            None => Shown { config: made()?, seen: None },
        };
        Ok(Self { folder: folder.map(Path::to_owned), shown: Mutex::new(shown) })
    }

    /// What the next connection is to be begun with. The files are looked at each time: connections are few.
    pub(super) async fn config(&self) -> Arc<ServerConfig> {
        if let Some(folder) = &self.folder {
            let files = Files::read(folder).await;
            self.take(folder, files);
        }
        Arc::clone(&self.shown().config)
    }

    /// Takes over what the files hold, if it is new and can be used; says so once, else.
    fn take(&self, folder: &Path, files: Result<Files, CertificateError>) {
        let seen = files.as_ref().ok().map(Files::digest);
        let mut shown = self.shown();
        if shown.seen == seen {
            return;
        }
        shown.seen = seen;
        match files.and_then(|files| files.config(folder)) {
            Ok(config) => {
                shown.config = config;
                tracing::info!(folder = %folder.display(), "the metrics have a new certificate");
            }
            Err(error) => tracing::warn!("the metrics keep their certificate: {error}"),
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    async fn read(folder: &Path) -> Result<Self, CertificateError> {
        let read = async |name: &str| {
            let path = folder.join(name);
            let failed = |source| CertificateError::File { path: path.display().to_string(), source };
            tokio::fs::read(&path).await.map_err(failed)
        };
        Ok(Self { certificate: read(CERTIFICATE).await?, key: read(KEY).await? })
    }

    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [&self.certificate, &self.key] {
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    fn config(&self, folder: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
        let wrong = |name: &str, what| {
            let path = folder.join(name).display().to_string();
            move |source| CertificateError::Pem { path, what, source }
        };
        let chain = CertificateDer::pem_slice_iter(&self.certificate).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(wrong(CERTIFICATE, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(wrong(KEY, "private key"))?;
        Ok(config(chain, key)?)
    }
}

fn made() -> Result<Arc<ServerConfig>, CertificateError> {
    let names = std::env::var("HOSTNAME").into_iter().chain(["localhost".to_owned()]);
    let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>())?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok(config(vec![made.cert.der().clone()], key.into())?)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
