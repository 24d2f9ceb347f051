// What pages do beside being read: times in the reader's zone, keys, and a log that grows as it is scrolled.
// Every page works without it.
"use strict";
(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Times: the zone of the reader, the exact time on hover.
  const two = (n) => String(n).padStart(2, "0");
  const local = (t) => `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}`;
  const times = (root) => {
    for (const e of all("time[datetime]", root)) {
      const t = new Date(e.dateTime);
      if (!isNaN(t)) e.textContent = local(t);
    }
  };
  const zone = one("#zone");
  times(document);
  if (zone) zone.textContent = "times are " + (Intl.DateTimeFormat().resolvedOptions().timeZone || "local") + "; hover for UTC";

  // Copying.
  const copy = async (button) => {
    const of = document.getElementById(button.dataset.copy);
    const lines = all("code", of);
    const text = lines.length ? lines.filter((c) => !c.closest("[hidden]")).map((c) => c.textContent).join("\n") : of.textContent;
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(of); // without https a browser lets only the reader copy
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  for (const b of all("button[data-copy]")) {
    b.hidden = false;
    b.addEventListener("click", () => copy(b));
  }

  // The log.
  const log = one(".log[data-more]");
  const body = log && one("tbody", log);
  const total = log ? Number(log.dataset.total) : 0;
  const step = 200, most = 3000, mostFolded = 20000; // lines of a step, and on the page: those that show, and all
  const number = (row) => Number(row.id.slice(1));
  const rows = () => all("tr[id]", body);
  let busy = false, folding = true;
  let looking = 0; // the line that is looked at
  let turn = 0; // raised when other lines are shown: what was asked for before is late

  const showSpan = () => {
    const list = rows(), seen = one("#seen");
    if (seen && list.length) seen.textContent = `${number(list[0]).toLocaleString("en")} to ${number(list[list.length - 1]).toLocaleString("en")}`;
  };

  // fold hides all but the first of four or more lines that differ only in numbers.
  const fold = () => {
    for (const f of all("tr.fold", body)) f.remove();
    for (const r of all("tr[hidden]", body)) r.hidden = false;
    if (!folding) return;
    let run = [];
    const end = () => {
      if (run.length > 3) {
        const last = run.pop(); // the last one is what the reader wants to compare with
        if (!run.some((r) => "#" + r.id === location.hash)) {
          const row = document.createElement("tr"), cell = document.createElement("td"), button = document.createElement("button");
          row.className = "fold";
          cell.colSpan = 2;
          button.type = "button";
          button.textContent = `⋯ ${run.length} lines like the one above`;
          const hidden = run;
          button.addEventListener("click", () => { for (const r of hidden) r.hidden = false; row.remove(); });
          cell.append(button);
          row.append(cell);
          last.before(row);
          for (const r of run) r.hidden = true;
        }
      }
      run = [];
    };
    for (const r of rows()) r.classList.contains("like") ? run.push(r) : end();
    end();
  };

  const fetchLines = async (from, to) => {
    const url = new URL(log.dataset.more, location.href);
    url.searchParams.set("from", from);
    url.searchParams.set("to", to);
    const answer = await fetch(url, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.status);
    return answer.text();
  };

  // stays is a row in view that folding will not hide: it keeps its place when others come.
  const stays = (list) => {
    const box = log.getBoundingClientRect();
    const inView = list.filter((r) => {
      const at = r.getBoundingClientRect();
      return !r.hidden && at.bottom > box.top && at.top < box.bottom;
    });
    return inView.find((r) => r.classList.contains("current")) || inView.find((r) => !r.classList.contains("like")) || inView[0] || list[0];
  };

  const grow = async (earlier) => {
    const list = rows();
    if (busy || !list.length) return false;
    const edge = number(earlier ? list[0] : list[list.length - 1]);
    const from = earlier ? Math.max(1, edge - step) : edge + 1;
    const to = earlier ? edge - 1 : Math.min(total, edge + step);
    if (from > to) return false;
    busy = true;
    const mine = turn;
    try {
      const html = await fetchLines(from, to);
      if (mine !== turn) return false;
      const anchor = stays(list);
      const before = anchor.getBoundingClientRect().top;
      body.insertAdjacentHTML(earlier ? "afterbegin" : "beforeend", html);
      fold();
      const now = rows(), over = Math.max(shown() - most, now.length - mostFolded);
      if (over > 0) {
        for (const r of earlier ? now.slice(-over) : now.slice(0, over)) r.remove();
        fold();
      }
      if (anchor.isConnected && !anchor.hidden) log.scrollTop += anchor.getBoundingClientRect().top - before;
      showSpan();
      return true;
    } catch {
      return false;
    } finally {
      busy = false;
    }
  };

  // near brings more lines where an edge is near. What comes may be folded away, so it goes on until there is something
  // to see, and not for ever.
  const shown = () => all("tr[id]:not([hidden])", body).length;
  const near = async () => {
    for (const earlier of [true, false]) {
      for (let i = 0; i < 10; i++) {
        const room = earlier ? log.scrollTop : log.scrollHeight - log.scrollTop - log.clientHeight;
        if (room > 300 || !(await grow(earlier))) break;
      }
    }
  };

  // show brings a line into view, from the server where it is not on the page.
  const show = async (n) => {
    if (!(n >= 1 && n <= total)) return;
    looking = n;
    const mine = ++turn;
    if (!document.getElementById("L" + n)) {
      const html = await fetchLines(Math.max(1, n - 100), Math.min(total, n + 100));
      if (mine !== turn) return;
      turn++; // for what was asked for meanwhile
      body.innerHTML = html;
      fold();
      showSpan();
    }
    const row = document.getElementById("L" + n);
    if (!row) return;
    if (row.hidden) fold();
    row.hidden = false;
    for (const r of all("tr.current", body)) r.classList.remove("current");
    row.classList.add("current");
    log.scrollTop += row.getBoundingClientRect().top - log.getBoundingClientRect().top - log.clientHeight / 3;
  };

  if (log) {
    log.classList.add("live");
    const button = one("#fold");
    button.hidden = false;
    button.addEventListener("click", () => {
      folding = !folding;
      button.setAttribute("aria-pressed", String(folding));
      fold();
    });
    fold();
    const asked = /^#L(\d+)$/.exec(location.hash);
    const found = one("#found a"), root = one("tr.root", body);
    const first = asked ? Number(asked[1]) : found ? Number(found.textContent) : root ? number(root) : 0;
    const start = show(first);
    start.then(near).then(() => {
      log.dataset.ready = "true";
      log.addEventListener("scroll", near, { passive: true });
      log.addEventListener("wheel", near, { passive: true }); // at the edge there is nothing to scroll
    });
    addEventListener("hashchange", () => {
      const m = /^#L(\d+)$/.exec(location.hash);
      if (m) show(Number(m[1]));
    });
    // A link to a line of this log moves there without loading the page again.
    document.addEventListener("click", (e) => {
      const a = e.target.closest("#stops a, #found a, .evidence a, .lanes a, .proof a.n");
      const href = a && a.getAttribute("href");
      if (!href || e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
      const url = new URL(href, location.href), here = new URL(location.href);
      const line = /^#L(\d+)$/.exec(url.hash);
      if (!line || url.pathname !== here.pathname || url.searchParams.get("file") !== new URL(log.dataset.more, here).searchParams.get("file") && url.searchParams.has("file")) return;
      e.preventDefault();
      history.pushState(null, "", url);
      show(Number(line[1]));
      one("#log").scrollIntoView({ block: "start" });
    });
    addEventListener("popstate", () => {
      const m = /^#L(\d+)$/.exec(location.hash);
      if (m) show(Number(m[1]));
    });
  }

  // Keys.
  const walk = () => all(".walk tbody tr, article.hit").filter((r) => r.offsetParent !== null);
  const move = (by) => {
    const list = walk();
    if (!list.length) return;
    const now = list.findIndex((r) => r.classList.contains("here"));
    const next = list[Math.max(0, Math.min(list.length - 1, now < 0 ? (by > 0 ? 0 : list.length - 1) : now + by))];
    for (const r of list) r.classList.remove("here");
    next.classList.add("here");
    next.scrollIntoView({ block: "nearest" });
    const a = one("a[href]", next);
    if (a) a.focus({ preventScroll: true });
  };
  const stops = (by) => {
    const list = all("#found a").length ? all("#found a") : all("#stops a");
    if (!list.length || !log) return;
    const lines = list.map((a) => Number(/#L(\d+)$/.exec(a.getAttribute("href"))[1]));
    const i = by > 0 ? lines.findIndex((n) => n > looking) : lines.findLastIndex((n) => n < looking);
    list[i < 0 ? (by > 0 ? 0 : list.length - 1) : i].click();
  };
  const help = one("#keys");
  const keys = {
    "/": () => one(".find input").focus(),
    "?": () => help && help.showModal(),
    j: () => move(1),
    k: () => move(-1),
    o: () => { const a = one(".here a[href]"); if (a) a.click(); },
    n: () => stops(1),
    p: () => stops(-1),
    f: () => { const i = one("#log input[name=find]"); if (i) i.focus(); },
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.target.closest("input, textarea, select, dialog[open]")) {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    const does = keys[e.key];
    if (does) {
      e.preventDefault();
      does();
    }
  });
  for (const b of all("button[data-open]")) {
    b.hidden = false;
    b.addEventListener("click", () => document.getElementById(b.dataset.open).showModal());
  }
})();
