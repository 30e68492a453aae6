//! The run's own certificates.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::{Error, Result};

const SERVER_NAMES: [&str; 5] =
    ["localhost", "127.0.0.1", "10.96.0.1", "kubernetes", "kubernetes.default.svc"];

/// Where the run's certificates and keys are.
#[derive(Clone, Debug)]
pub(crate) struct Pki {
    dir: PathBuf,
}

/// A client certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Makes the certificates of a run.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    pub(crate) fn at(run_dir: &Path) -> Self {
        Self { dir: run_dir.join("pki") }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    pub(crate) fn server_certificate(&self) -> PathBuf {
        self.dir.join("server.crt")
    }

    pub(crate) fn server_key(&self) -> PathBuf {
        self.dir.join("server.key")
    }

    /// The key that service account tokens are signed with.
    pub(crate) fn token_key(&self) -> PathBuf {
        self.dir.join("tokens.key")
    }

    /// The key that service account tokens are checked with.
    pub(crate) fn token_public_key(&self) -> PathBuf {
        self.dir.join("tokens.pub")
    }

    pub(crate) fn ca_pem(&self) -> Result<String> {
        let path = self.ca();
        std::fs::read_to_string(&path).map_err(Error::io(format!("reading {}", path.display())))
    }

    /// Makes everything a run needs and returns the authority, for client identities.
    pub(crate) fn create(&self) -> Result<Authority> {
        std::fs::create_dir_all(&self.dir).map_err(Error::io(format!("creating {}", self.dir.display())))?;
        let failed = |source| Error::Certificate { name: "the authority".into(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "devcluster");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).map_err(failed)?;
        write(&self.ca(), &certificate.pem())?;
        let authority = Authority { issuer: Issuer::new(params, key) };

        let server =
            authority.issue("kube-apiserver", None, &SERVER_NAMES, ExtendedKeyUsagePurpose::ServerAuth)?;
        write(&self.server_certificate(), &server.certificate)?;
        write(&self.server_key(), &server.key)?;

        let tokens = KeyPair::generate()
            .map_err(|source| Error::Certificate { name: "service account tokens".into(), source })?;
        write(&self.token_key(), &tokens.serialize_pem())?;
        write(&self.token_public_key(), &tokens.public_key_pem())?;
        Ok(authority)
    }
}

fn write(path: &Path, pem: &str) -> Result<()> {
    std::fs::write(path, pem).map_err(Error::io(format!("writing {}", path.display())))
}

impl Authority {
    /// A client certificate for a user, in a group if one is given.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Identity> {
        self.issue(user, group, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        name: &str,
        organization: Option<&str>,
        hosts: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        let failed = |source| Error::Certificate { name: name.to_owned(), source };
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(organization) = organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}
