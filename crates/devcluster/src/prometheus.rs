//! A real Prometheus that scrapes what runs on the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::process::Process;
use crate::{ControllerSpec, Error, Result, debian, ports, probe};

const NAME: &str = "prometheus";

/// What is scraped: the job it is known by, and where its metrics are.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The job.
    pub job: String,
    /// Host and port.
    pub address: String,
    /// The token by which it is asked for, by HTTPS then, whoever vouches for its certificate. One for all of a job.
    pub token: Option<String>,
}

/// A Prometheus that runs.
#[derive(Clone, Debug)]
pub struct Prometheus {
    /// Its process.
    pub process: Process,
    url: String,
}

/// One series of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its labels, the name among them as `__name__`.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// An exemplar that Prometheus has kept.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Exemplar {
    /// What it points at.
    pub labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Vector {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

#[derive(Deserialize)]
struct Exemplars {
    exemplars: Vec<Exemplar>,
}

impl Process {
    /// Where one of our own processes serves its metrics, by its flag.
    pub fn metrics_address(&self) -> Option<&str> {
        self.spec().args.iter().find_map(|arg| arg.strip_prefix("--metrics-bind-address="))
    }
}

impl Cluster {
    /// Runs the machine's `prometheus`, which scrapes these every second and evaluates the rules of these files.
    ///
    /// # Errors
    /// When there is none, or when it ends before it is ready; the message has its last log lines.
    pub async fn run_prometheus(&self, targets: &[Target], rules: &[PathBuf]) -> Result<Prometheus> {
        let binary = debian::program(NAME).ok_or(Error::PrometheusMissing)?;
        let folder = self.run_dir().join(NAME);
        let file = folder.join("prometheus.yaml");
        let write = || {
            std::fs::create_dir_all(&folder)?;
            // JSON is YAML.
            std::fs::write(&file, configuration(targets, rules).to_string())
        };
        write().map_err(Error::io(format!("writing {}", file.display())))?;
        let (port, _) = ports::pair()?;
        let url = format!("http://127.0.0.1:{port}");
        let args = vec![
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--enable-feature=exemplar-storage".to_owned(),
        ];
        let spec = ControllerSpec {
            name: NAME.to_owned(),
            binary,
            args,
            ready_url: Some(format!("{url}/-/ready")),
            ..ControllerSpec::default()
        };
        Ok(Prometheus { process: self.spawn_controller(spec).await?, url })
    }
}

impl Prometheus {
    /// What an expression says at this moment; a scalar is one series without labels.
    ///
    /// # Errors
    /// In Prometheus' words, when it cannot be understood.
    pub async fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        let answer: Value = self.ask(&format!("query?query={}", encoded(expression))).await?;
        let unclear = || Error::Prometheus { words: format!("{expression}: {answer}") };
        if answer["resultType"] == "scalar" {
            let (_, value): (f64, String) =
                serde_json::from_value(answer["result"].clone()).map_err(|_| unclear())?;
            let value = value.parse().map_err(|_| unclear())?;
            return Ok(vec![Sample { labels: BTreeMap::new(), value }]);
        }
        let vector: Vector = serde_json::from_value(answer.clone()).map_err(|_| unclear())?;
        let sample = |Series { metric, value: (_, value) }| {
            Ok(Sample { labels: metric, value: value.parse().map_err(|_| unclear())? })
        };
        vector.result.into_iter().map(sample).collect()
    }

    /// The exemplars of what an expression selects, of the last hour.
    ///
    /// # Errors
    /// In Prometheus' words, when it cannot be understood.
    pub async fn exemplars(&self, expression: &str) -> Result<Vec<Exemplar>> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let (start, end) = (now.as_secs() - 3600, now.as_secs() + 60);
        let query = format!("query_exemplars?query={}&start={start}&end={end}", encoded(expression));
        let found: Vec<Exemplars> = self.ask(&query).await?;
        Ok(found.into_iter().flat_map(|series| series.exemplars).collect())
    }

    /// The `data` of an answer of the query API.
    ///
    /// # Errors
    /// In Prometheus' words, when it answers with an error.
    pub async fn ask<T: DeserializeOwned>(&self, path_and_query: &str) -> Result<T> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            data: Value,
            error: Option<String>,
        }
        let failed = |words: String| Error::Prometheus { words: format!("{path_and_query}: {words}") };
        let uri = format!("{}/api/v1/{path_and_query}", self.url);
        let uri = uri.parse().map_err(|_| failed("this is no address".to_owned()))?;
        let client = probe::client::<Empty<Bytes>>("")?;
        let response = client.get(uri).await.map_err(|error| failed(error.to_string()))?;
        let body = response.into_body().collect().await.map_err(|error| failed(error.to_string()))?;
        let answer: Answer =
            serde_json::from_slice(&body.to_bytes()).map_err(|error| failed(error.to_string()))?;
        match answer.error {
            Some(words) => Err(failed(words)),
            None => serde_json::from_value(answer.data).map_err(|error| failed(error.to_string())),
        }
    }
}

fn configuration(targets: &[Target], rules: &[PathBuf]) -> Value {
    let mut jobs: BTreeMap<&str, Vec<&Target>> = BTreeMap::new();
    for target in targets {
        jobs.entry(&target.job).or_default().push(target);
    }
    let job = |(job, targets): (&str, Vec<&Target>)| {
        let addresses: Vec<_> = targets.iter().map(|target| &target.address).collect();
        let mut job = json!({ "job_name": job, "static_configs": [{ "targets": addresses }] });
        if let Some(token) = targets.iter().find_map(|target| target.token.as_ref()) {
            job["scheme"] = json!("https");
            job["tls_config"] = json!({ "insecure_skip_verify": true });
            job["authorization"] = json!({ "credentials": token });
        }
        job
    };
    json!({
        "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
        "rule_files": rules,
        "scrape_configs": jobs.into_iter().map(job).collect::<Vec<_>>(),
    })
}

/// Every byte as it may stand in a query.
pub(crate) fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut encoded, byte| {
        // Writing to a String cannot fail.
        let _infallible = write!(encoded, "%{byte:02X}");
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_of_one_job_are_scraped_together() {
        let target = |job: &str, port: u16| Target {
            job: job.to_owned(),
            address: format!("127.0.0.1:{port}"),
            ..Target::default()
        };
        let all = [target("core", 1), target("driver", 2), target("core", 3)];
        let made = configuration(&all, &[PathBuf::from("/rules.yaml")]);
        assert_eq!(made["rule_files"], json!(["/rules.yaml"]));
        assert_eq!(
            made["scrape_configs"],
            json!([
                { "job_name": "core", "static_configs": [{ "targets": ["127.0.0.1:1", "127.0.0.1:3"] }] },
                { "job_name": "driver", "static_configs": [{ "targets": ["127.0.0.1:2"] }] },
            ])
        );
    }

    #[test]
    fn any_expression_fits_in_a_query() {
        assert_eq!(encoded("a{b=\"ä\"}"), "%61%7B%62%3D%22%C3%A4%22%7D");
    }
}
