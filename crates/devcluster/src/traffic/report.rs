//! What a client saw.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::client::{EVERY, Fault, Sample};
use super::line::Line;

/// Everything a client saw, in the order in which requests were due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Every request.
    pub samples: Vec<Sample>,
    /// The long connection.
    pub line: Line,
}

/// Requests that failed one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When the first of them was due.
    pub from: Duration,
    /// When the first was due that was answered again; or the next that would have been due.
    pub until: Duration,
    /// How many failed, by what became of them.
    pub faults: BTreeMap<Fault, usize>,
    /// Who answered before, if anybody did.
    pub before: Option<String>,
    /// Who answered after, if anybody did.
    pub after: Option<String>,
}

impl Outage {
    /// How long it lasted, by the moments at which requests were due.
    pub fn length(&self) -> Duration {
        self.until.saturating_sub(self.from)
    }

    /// How many requests failed.
    pub fn failed(&self) -> usize {
        self.faults.values().sum()
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(|(fault, count)| format!("{count} {fault}")).collect();
        let (from, length) = (self.from.as_secs_f64(), self.length().as_millis());
        let who = |name: &Option<String>| name.clone().unwrap_or_else(|| "nobody".to_owned());
        let (before, after) = (who(&self.before), who(&self.after));
        write!(f, "{length} ms from {from:.3} s on: {} ({before} before, {after} after)", faults.join(", "))
    }
}

impl Report {
    /// The same without what was asked before anybody ever answered.
    #[must_use]
    pub fn since_the_first_answer(mut self) -> Self {
        let first = self.samples.iter().position(|sample| sample.answer.is_ok());
        self.samples.drain(..first.unwrap_or(0));
        self
    }

    /// How many answers each workload gave.
    pub fn answers(&self) -> BTreeMap<&str, usize> {
        let mut answers = BTreeMap::new();
        for name in self.samples.iter().filter_map(|sample| sample.answer.as_deref().ok()) {
            *answers.entry(name).or_default() += 1;
        }
        answers
    }

    /// How many requests failed.
    pub fn failed(&self) -> usize {
        self.samples.iter().filter(|sample| sample.answer.is_err()).count()
    }

    /// The runs of failed requests.
    pub fn outages(&self) -> Vec<Outage> {
        let mut outages: Vec<Outage> = Vec::new();
        let mut before: Option<String> = None;
        let mut failing = false;
        for sample in &self.samples {
            match (&sample.answer, outages.last_mut()) {
                (Err(fault), Some(outage)) if failing => {
                    *outage.faults.entry(*fault).or_default() += 1;
                    outage.until = sample.due + EVERY;
                }
                (Err(fault), _) => {
                    failing = true;
                    outages.push(Outage {
                        from: sample.due,
                        until: sample.due + EVERY,
                        faults: [(*fault, 1)].into(),
                        before: before.clone(),
                        after: None,
                    });
                }
                (Ok(name), outage) => {
                    if let Some(outage) = outage.filter(|_| failing) {
                        outage.until = sample.due;
                        outage.after = Some(name.clone());
                    }
                    failing = false;
                    before = Some(name.clone());
                }
            }
        }
        outages
    }

    /// The longest run of failed requests.
    pub fn longest_outage(&self) -> Duration {
        self.outages().iter().map(Outage::length).max().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = self.answers().into_iter().map(|(name, count)| format!("{count} answered by {name}"));
        let answers: Vec<_> = answers.collect();
        write!(f, "{} requests: {}, {} failed", self.samples.len(), answers.join(", "), self.failed())?;
        for outage in self.outages() {
            write!(f, "\n  outage: {outage}")?;
        }
        write!(f, "\n  the long connection: {}", self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(answers: &[Result<&str, Fault>]) -> Report {
        let sample = |(number, answer): (u32, &Result<&str, Fault>)| Sample {
            due: EVERY * number,
            answer: answer.map(str::to_owned),
        };
        Report { samples: (0..).zip(answers).map(sample).collect(), line: Line::default() }
    }

    #[test]
    fn outages_last_from_the_first_failure_to_the_first_answer() {
        let (late, gone) = (Err(Fault::Late), Err(Fault::Unreachable));
        let report = report(&[Ok("t/a"), gone, late, gone, Ok("t/b"), Ok("t/b"), gone]);
        let outages = report.outages();
        assert_eq!(outages.len(), 2);
        assert_eq!(outages[0].length(), EVERY * 3);
        assert_eq!(outages[0].failed(), 3);
        assert_eq!(outages[0].before.as_deref(), Some("t/a"));
        assert_eq!(outages[0].after.as_deref(), Some("t/b"));
        assert_eq!((outages[1].length(), outages[1].after.as_deref()), (EVERY, None));
        assert_eq!((report.failed(), report.longest_outage()), (4, EVERY * 3));
        assert_eq!(report.answers(), [("t/a", 1), ("t/b", 2)].into());
        let told = outages[0].to_string();
        assert_eq!(told, "15 ms from 0.005 s on: 2 unreachable, 1 without an answer (t/a before, t/b after)");
    }

    #[test]
    fn what_was_before_the_first_answer_can_be_left_out() {
        let gone = Err(Fault::Unreachable);
        let left = report(&[gone, gone, Ok("t/a"), gone]).since_the_first_answer();
        assert_eq!((left.samples.len(), left.failed()), (2, 1));
        assert_eq!(report(&[gone]).since_the_first_answer().failed(), 1);
    }

    #[test]
    fn without_a_failure_there_is_no_outage() {
        let report = report(&[Ok("t/a"), Ok("t/b")]);
        assert_eq!((report.outages().len(), report.failed()), (0, 0));
        assert_eq!(report.longest_outage(), Duration::ZERO);
    }
}
