"use strict";
// Pages are whole without this file. With it: they stay up to date, ages count on, commands are copied, keys lead around.
(() => {
  const root = document.documentElement;
  const base = root.dataset.base || "";
  let token = root.dataset.token;
  let loading = false;
  let again = false;

  // The same words as on the server.
  const age = (from, now) => {
    const seconds = Math.max(0, Math.floor((now - from) / 1000));
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} d`;
  };

  const stamp = (asOf, silent) => {
    const place = document.getElementById("asof");
    if (!place) return;
    const time = document.createElement("time");
    time.dateTime = asOf;
    time.textContent = `${asOf.slice(11, 19)} UTC`;
    place.replaceChildren(silent ? "stale: as of " : "as of ", time);
    place.classList.toggle("stale", silent);
    place.classList.toggle("fresh", !silent);
    const now = Date.parse(asOf);
    for (const element of document.querySelectorAll("time[data-age]")) {
      const words = age(Date.parse(element.dateTime), now);
      if (element.textContent !== words) element.textContent = words;
    }
  };

  // Puts the new text of each live part in the place of the old one: filters, scroll and focus stay as they are.
  const swap = (page) => {
    for (const fresh of page.querySelectorAll("[data-live]")) {
      const old = document.getElementById(fresh.id);
      if (!old || old.isEqualNode(fresh)) continue;
      const focused = old.contains(document.activeElement) ? document.activeElement : null;
      const href = focused && focused.getAttribute("href");
      const scrolled = [...old.querySelectorAll(".wide, pre")].map((part) => part.scrollLeft);
      const known = new Map([...old.querySelectorAll("tr[id], .note[id]")].map((row) => [row.id, row.textContent]));
      old.replaceChildren(...fresh.childNodes);
      old.querySelectorAll(".wide, pre").forEach((part, place) => { part.scrollLeft = scrolled[place] || 0; });
      for (const row of old.querySelectorAll("tr[id], .note[id]")) {
        // Only what is new, not what grew older.
        const text = (words) => words && words.replace(/\d+ (s|min|h|d)\b/g, "");
        if (text(known.get(row.id)) !== text(row.textContent)) row.classList.add("moved");
      }
      if (href) {
        const same = [...old.querySelectorAll("a")].find((link) => link.getAttribute("href") === href);
        if (same) same.focus({ preventScroll: true });
      }
    }
  };

  const load = async () => {
    if (loading) { again = true; return; }
    loading = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", headers: { accept: "text/html" } });
      if (answer.redirected || answer.status === 401) { location.reload(); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.documentElement.dataset;
      if (answer.ok && page.querySelector("[data-live]")) {
        swap(page);
        token = fresh.token;
      } else if (answer.status === 404) {
        // What the page was about is gone; the page that says so is the right one.
        document.getElementById("main").replaceChildren(...page.getElementById("main").childNodes);
        token = fresh.token;
      }
    } catch (_) {
      // The stream connects again by itself, and tells again.
    } finally {
      loading = false;
      if (again) { again = false; load(); }
    }
  };

  if (token && window.EventSource) {
    let stream;
    const open = () => {
      if (stream && stream.readyState !== EventSource.CLOSED) return;
      stream = new EventSource(`${base}/live`);
      stream.addEventListener("changed", (event) => {
        const news = JSON.parse(event.data);
        const todo = news.token === token ? Promise.resolve() : load();
        todo.then(() => stamp(news.asOf, news.silent));
      });
      stream.addEventListener("still", (event) => {
        const news = JSON.parse(event.data);
        stamp(news.asOf, news.silent);
      });
      stream.addEventListener("error", () => {
        const place = document.getElementById("asof");
        if (place) { place.classList.remove("fresh"); place.classList.add("stale"); }
        if (stream.readyState === EventSource.CLOSED) setTimeout(open, 5000);
      });
    };
    open();
    // A page that is put away and taken up again.
    addEventListener("pageshow", (event) => { if (event.persisted) { open(); load(); } });
    addEventListener("pagehide", () => { if (stream) stream.close(); });
  }

  // A choice is enough; the button is for those without this file.
  for (const form of document.querySelectorAll("form[data-filters]")) {
    form.addEventListener("change", (event) => {
      if (event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
    });
    // Empty fields are no filters: leave them out of the address.
    form.addEventListener("formdata", (event) => {
      for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
    });
  }

  document.addEventListener("click", async (event) => {
    const line = event.target.closest(".command pre");
    if (!line || String(getSelection()) !== "") return;
    try {
      await navigator.clipboard.writeText(line.textContent);
      const what = line.parentElement.querySelector(".what");
      line.parentElement.classList.add("copied");
      if (what && !what.dataset.said) {
        what.dataset.said = what.textContent;
        what.textContent = `${what.textContent} — copied`;
        setTimeout(() => { what.textContent = what.dataset.said; delete what.dataset.said; line.parentElement.classList.remove("copied"); }, 1500);
      }
    } catch (_) {
      // Without a clipboard the text can still be marked.
    }
  });

  // "/" leads to the search field, "g" and a letter to a page, "[" and "]" through the pages of a list.
  const ways = { o: "/", a: "/addresses", c: "/claims", s: "/services", l: "/classes", h: "/associations", x: "/conflicts" };
  let led = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      const field = document.getElementById("search");
      if (field) { field.focus(); field.select(); }
    } else if (event.key === "g") {
      led = Date.now();
    } else if (Date.now() - led < 1500 && Object.hasOwn(ways, event.key)) {
      location.href = base + ways[event.key];
    } else if (event.key === "[" || event.key === "]") {
      const link = document.querySelector(`.pager a[rel=${event.key === "[" ? "prev" : "next"}]`);
      if (link) link.click();
    }
  });
})();
