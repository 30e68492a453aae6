// The other end of the browser crate: it reads one request a line, `{id, op, page, ...}`, has playwright do it, and answers
// `{id, value}` or `{id, error}`. It ends with its standard input.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [modules, executablePath] = process.argv.slice(1);
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

// Longer than a test waits for its cluster: a loaded machine is no failure.
const TIMEOUT = 60_000;
const ARGS = ['--disable-quic', '--disable-gpu', '--force-color-profile=srgb', '--hide-scrollbars'];

const browser = await chromium.launch({ executablePath, args: ARGS, timeout: 120_000 });
const pages = new Map();

async function open({ javascript, dark, width, height, headers }) {
  const context = await browser.newContext({
    javaScriptEnabled: javascript,
    colorScheme: dark ? 'dark' : 'light',
    viewport: { width, height },
    extraHTTPHeaders: headers,
    reducedMotion: 'reduce',
    locale: 'en-GB',
    timezoneId: 'UTC',
  });
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const entry = { context, page, problems: [], origin: null };
  const problem = (text) => entry.problems.push(text);
  page.on('console', (message) => {
    // What breaks the policy is told as an error, too.
    if (['error', 'warning'].includes(message.type())) problem(`console ${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => problem(`uncaught: ${error.message}`));
  page.on('dialog', (dialog) => { problem(`dialog: ${dialog.message()}`); dialog.dismiss().catch(() => {}); });
  page.on('request', (request) => {
    const origin = new URL(request.url()).origin;
    if (entry.origin && !['null', entry.origin].includes(origin)) problem(`asked elsewhere: ${request.url()}`);
  });
  return entry;
}

async function axe({ page }) {
  // By the debugging protocol, which the page's policy does not govern.
  await page.evaluate(axeSource);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(' ')}: ${failureSummary ?? ''}`));
}

// What is looked for by text has to be seen, too: an element that is hidden is not there for a person.
const seen = ({ page }, { selector, text }) =>
  (text === undefined ? page.locator(selector) : page.locator(selector).filter({ hasText: text })).filter({ visible: true });

const operations = {
  async goto(entry, { url }) {
    entry.origin = new URL(url).origin;
    const response = await entry.page.goto(url);
    return response.status();
  },
  async reload({ page }) {
    const response = await page.reload();
    return response.status();
  },
  see: (entry, request) => seen(entry, request).first().waitFor({ state: 'visible' }),
  gone: async (entry, request) => {
    // Also of several: the first that is left is waited for, until there is none.
    const left = seen(entry, request).first();
    await left.waitFor({ state: 'detached' });
  },
  click: (entry, request) => seen(entry, request).first().click(),
  fill: ({ page }, { selector, value }) => page.locator(selector).first().fill(value),
  select: ({ page }, { selector, value }) => page.locator(selector).first().selectOption(value),
  press: ({ page }, { key }) => page.keyboard.press(key),
  texts: ({ page }, { selector }) => page.locator(selector).filter({ visible: true }).allInnerTexts(),
  attributes: ({ page }, { selector, name }) =>
    page.locator(selector).evaluateAll((found, name) => found.map((element) => element.getAttribute(name) ?? ''), name),
  run: ({ page }, { script }) => page.evaluate(script),
  url: ({ page }) => page.url(),
  cookies: async ({ context }) => (await context.cookies()).map((cookie) => ({ ...cookie })),
  html: ({ page }) => page.content(),
  axe,
  screenshot: async ({ page }, { path, full }) => {
    await page.screenshot({ path, fullPage: full, animations: 'disabled', scale: 'css' });
  },
  problems: (entry) => entry.problems.splice(0),
  close: async ({ context }) => { await context.close(); },
};

async function answer({ id, op, page, ...request }) {
  try {
    if (op === 'open') {
      pages.set(page, await open(request));
      return { id, value: null };
    }
    const entry = pages.get(page);
    if (!entry) throw new Error(`no page ${page}`);
    const value = await operations[op](entry, request);
    if (op === 'close') pages.delete(page);
    return { id, value: value ?? null };
  } catch (error) {
    return { id, error: `${op}: ${error.message}` };
  }
}

const lines = createInterface({ input: process.stdin });
lines.on('line', async (line) => {
  const told = await answer(JSON.parse(line));
  process.stdout.write(`${JSON.stringify(told)}\n`);
});
lines.on('close', async () => {
  await browser.close().catch(() => {});
  process.exit(0);
});
process.stdout.write(`${JSON.stringify({ id: 0, value: browser.version() })}\n`);
