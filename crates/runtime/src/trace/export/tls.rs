//! Whom we trust, and who we are, where a collector is asked by https.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::super::env::{EnvError, File, Tls};

/// For http. Where it is not for https, no certificate of the system is looked at: an image may have none.
pub(super) fn config(tls: &Tls, is_https: bool) -> Result<ClientConfig, EnvError> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| of_system(&error))?;
    let builder = match &tls.authority {
        Some(file) => builder.with_root_certificates(authority(file)?),
        None if is_https => builder.with_native_roots().map_err(|error| of_system(&error))?,
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let Some((certificate, key)) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(certificate)?;
    let private = PrivateKeyDer::from_pem_file(&key.path).map_err(|error| unreadable(key, &error))?;
    builder.with_client_auth_cert(chain, private).map_err(|error| unreadable(certificate, &error))
}

/// For grpc.
pub(super) fn of_grpc(tls: &Tls) -> Result<ClientTlsConfig, EnvError> {
    // So that what is no certificate is said at once, and by the name of its variable.
    config(tls, true)?;
    let config = ClientTlsConfig::new();
    let config = match &tls.authority {
        Some(file) => config.ca_certificate(Certificate::from_pem(bytes(file)?)),
        None => config.with_native_roots(),
    };
    Ok(match &tls.identity {
        Some((certificate, key)) => config.identity(Identity::from_pem(bytes(certificate)?, bytes(key)?)),
        None => config,
    })
}

fn authority(file: &File) -> Result<RootCertStore, EnvError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| unreadable(file, &error))?;
    }
    Ok(roots)
}

fn certificates(file: &File) -> Result<Vec<CertificateDer<'static>>, EnvError> {
    let read = CertificateDer::pem_file_iter(&file.path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| unreadable(file, &error))?;
    if read.is_empty() { Err(unreadable(file, &"it holds no certificate in PEM")) } else { Ok(read) }
}

fn bytes(file: &File) -> Result<Vec<u8>, EnvError> {
    std::fs::read(&file.path).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &File, words: &dyn std::fmt::Display) -> EnvError {
    EnvError {
        variable: file.variable.clone(),
        value: file.path.display().to_string(),
        words: format!("this file is of no use: {words}"),
    }
}

fn of_system(error: &dyn std::fmt::Display) -> EnvError {
    EnvError {
        variable: "SSL_CERT_FILE".to_owned(),
        value: std::env::var("SSL_CERT_FILE").unwrap_or_default(),
        words: format!("no certificates of the system: {error}"),
    }
}
