//! What is done to which requests.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use super::call::Call;

/// Something done at an exact moment, such as killing the controller.
pub(super) type Hook = Arc<dyn Fn(Call) -> BoxFuture<'static, ()> + Send + Sync>;

type Matches = Box<dyn Fn(&Call) -> bool + Send + Sync>;

/// A fault: which requests it is for, and what happens to them. Of several rules the first that matches counts.
pub struct Rule {
    matches: Matches,
    pub(super) act: Act,
    left: Option<u64>,
}

/// What happens to a request.
#[derive(Clone)]
pub(super) enum Act {
    Pass,
    Answer { status: u16, retry_after: Option<u64> },
    Delay(Duration),
    Before(Hook),
    After(Hook),
}

impl Rule {
    /// A rule for the requests that a condition holds for; it lets them through until told otherwise.
    pub fn when(matches: impl Fn(&Call) -> bool + Send + Sync + 'static) -> Self {
        Self { matches: Box::new(matches), act: Act::Pass, left: None }
    }

    /// A rule for the k-th counted write, from 1, since the proxy's start or last [`super::Proxy::reset`].
    pub fn write(k: u64) -> Self {
        Self::when(move |call| call.write == Some(k)).times(1)
    }

    /// Answers with an error status; the API server never sees the request.
    #[must_use]
    pub fn answer(self, status: u16) -> Self {
        Self { act: Act::Answer { status, retry_after: None }, ..self }
    }

    /// Answers 429 with a time to wait, in seconds; the API server never sees the request.
    #[must_use]
    pub fn throttle(self, retry_after: u64) -> Self {
        Self { act: Act::Answer { status: 429, retry_after: Some(retry_after) }, ..self }
    }

    /// Holds the request back before it is forwarded.
    #[must_use]
    pub fn delay(self, by: Duration) -> Self {
        Self { act: Act::Delay(by), ..self }
    }

    /// Does something instead of forwarding the request: a crash before the write.
    #[must_use]
    pub fn before<F>(self, hook: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { act: Act::Before(Arc::new(move |call| Box::pin(hook(call)))), ..self }
    }

    /// Does something once the API server has answered, before the client sees the answer: a crash after the write.
    #[must_use]
    pub fn after<F>(self, hook: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self { act: Act::After(Arc::new(move |call| Box::pin(hook(call)))), ..self }
    }

    /// Lets the rule apply so many times only.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { left: Some(times), ..self }
    }

    /// The act for a request, if the rule is for it; uses up one of its times.
    pub(super) fn apply(&mut self, call: &Call) -> Option<Act> {
        if self.left == Some(0) || !(self.matches)(call) {
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        Some(self.act.clone())
    }
}

#[cfg(test)]
mod tests {
    use hyper::Method;

    use super::*;

    #[test]
    fn a_rule_is_used_up() {
        let mut call = Call::parse(&Method::POST, &"/api/v1/namespaces/a/services".parse().unwrap());
        let mut rule = Rule::when(|call| call.resource == "services").answer(500).times(2);
        assert!(rule.apply(&call).is_some());
        assert!(rule.apply(&call).is_some());
        assert!(rule.apply(&call).is_none());
        let mut third = Rule::write(3).answer(500);
        assert!(third.apply(&call).is_none());
        call.write = Some(3);
        assert!(third.apply(&call).is_some());
    }
}
