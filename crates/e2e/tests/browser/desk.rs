//! Where people sit: a browser before the dashboards of one control plane.

use browser::{Browser, Page, View};
use devcluster::Dashboard;
use tokio::sync::OnceCell;

use crate::rig::{self, Own, Rig, Setup};

static OWN: Own = Own::new("browser");
static DESK: OnceCell<Desk> = OnceCell::const_new();

/// The path that the guarded dashboard is under.
pub const UNDER: &str = "/ips";

/// A browser and what it looks at.
pub struct Desk {
    /// The control plane.
    pub rig: &'static Rig,
    /// Where whoever comes sees everything.
    pub open: Dashboard,
    /// Where people are let in by their tokens.
    pub guarded: Dashboard,
    browser: Browser,
}

/// Runs a test at the desk, alone.
pub fn run(test: impl AsyncFnOnce(&'static Desk)) {
    // RBAC is as the chart for `auth.mode: kubernetes` has it, for both.
    OWN.run(Setup::default(), async |rig| test(DESK.get_or_init(async || Desk::set(rig).await).await).await);
}

impl Desk {
    async fn set(rig: &'static Rig) -> Self {
        rig.cluster.install_dashboard(&["--set", "auth.mode=kubernetes"]).await.unwrap();
        let traces = "--trace-url-template=https://traces.example/{trace_id}";
        let under = format!("--base-path={UNDER}");
        let open = rig.dashboard("dashboard", &[traces]).await;
        let guarded = rig.dashboard("dashboard-guarded", &["--auth-mode=kubernetes", &under]).await;
        Self { rig, open, guarded, browser: Browser::start().await.unwrap() }
    }

    /// Opens an empty page.
    pub async fn page(&self, view: View) -> Seen {
        Seen(self.browser.open(view).await.unwrap())
    }

    /// Opens a page of the open dashboard, as most people look at it.
    pub async fn at(&self, path: &str) -> Seen {
        let page = self.page(View::default()).await;
        page.goes(&format!("{}{path}", self.open.url)).await;
        page
    }

    /// Where a page of the guarded dashboard is.
    pub fn guarded_at(&self, path: &str) -> String {
        format!("{}{UNDER}{path}", self.guarded.url)
    }
}

/// A page that is looked at; every method fails the test where the browser does not see what it should.
pub struct Seen(pub Page);

impl Seen {
    /// Goes to an address that has to be there.
    pub async fn goes(&self, url: &str) {
        assert_eq!(self.0.goto(url).await.unwrap(), 200, "{url}");
    }

    /// Waits until an element with this text can be seen.
    pub async fn sees(&self, selector: &str, text: &str) {
        let seen = self.0.see(selector, text).await;
        self.waited(seen, &format!("{text:?} in {selector}")).await;
    }

    /// Waits until its scripts run.
    pub async fn is_loaded(&self) {
        rig::eventually("the page to be loaded", async || {
            let state: String = self.0.run("document.readyState").await.unwrap();
            (state == "complete").then_some(())
        })
        .await;
    }

    /// Waits until no element with this text can be seen.
    pub async fn sees_no_more(&self, selector: &str, text: &str) {
        let gone = self.0.gone(selector, text).await;
        self.waited(gone, &format!("no {text:?} in {selector}")).await;
    }

    /// Clicks the first element with this text.
    pub async fn clicks(&self, selector: &str, text: &str) {
        let clicked = self.0.click(selector, text).await;
        self.waited(clicked, &format!("{text:?} in {selector}, to click it")).await;
    }

    /// Fails with what can be seen instead.
    async fn waited(&self, outcome: anyhow::Result<()>, what: &str) {
        if let Err(error) = outcome {
            let (url, whole) = (self.0.url().await.unwrap_or_default(), self.whole().await);
            panic!("waited for {what} at {url}: {error:#}; it shows:\n{whole}");
        }
    }

    /// Searches by the field at the top.
    pub async fn searches(&self, text: &str) {
        self.0.fill("#search", text).await.unwrap();
        self.0.press("Enter").await.unwrap();
        self.sees("h1", "Addresses").await;
    }

    /// The texts of all elements that can be seen.
    pub async fn texts(&self, selector: &str) -> Vec<String> {
        self.0.texts(selector).await.unwrap()
    }

    /// Everything that stands on the page.
    pub async fn whole(&self) -> String {
        self.texts("body").await.concat()
    }

    /// Nothing went wrong so far: no error in the console, nothing against the policy, nothing asked of others.
    pub async fn was_well(&self) {
        let problems = self.0.problems().await.unwrap();
        assert!(problems.is_empty(), "{} has {problems:#?}", self.0.url().await.unwrap());
    }

    /// Everybody can use it, as far as axe can tell.
    pub async fn is_for_everybody(&self) {
        let found = self.0.axe().await.unwrap();
        assert!(found.is_empty(), "axe at {}: {found:#?}", self.0.url().await.unwrap());
    }

    /// Nothing is wider than the screen.
    pub async fn fits(&self) {
        let root = "document.documentElement";
        let wide: bool = self.0.run(&format!("{root}.scrollWidth > {root}.clientWidth")).await.unwrap();
        assert!(!wide, "{} is wider than the screen", self.0.url().await.unwrap());
    }

    /// What a path of the same dashboard answers, asked with this page's cookies and headers: status and body.
    pub async fn fetches(&self, path: &str) -> (u16, String) {
        let script = format!("fetch({path:?}).then(async (r) => [r.status, await r.text()])");
        self.0.run(&script).await.unwrap()
    }

    /// Closes it, when nothing went wrong.
    pub async fn closes(self) {
        self.was_well().await;
        self.0.close().await.unwrap();
    }
}
