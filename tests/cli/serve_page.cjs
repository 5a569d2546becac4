// Drives the server's page in headless Chromium by keyboard alone:
//
//   node serve_page.cjs BROWSER URL FOLDER WIDTH [KEY]
//
// Asks the default question, at WIDTH pixels, and races two methods if the
// server offers several. Prints a line "ok WHAT" for each check that holds and
// "not ok WHAT: WHY" for others; screenshots go to FOLDER. Chromium is driven
// by the DevTools protocol, over the pipes that it has as descriptors 3 and 4.
'use strict';
const { spawn } = require('node:child_process');
const { writeFileSync } = require('node:fs');

const [browser, url, folder, width, apiKey] = process.argv.slice(2);
const height = 900;
let failed = 0;

function check(what, holds, why) {
  failed += !holds;
  console.log(holds ? `ok ${what}` : `not ok ${what}: ${why}`);
}

// ---- the protocol ----------------------------------------------------------
const chromium = spawn(browser, ['--headless', '--no-sandbox', '--disable-gpu',
  '--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${folder}/browser`,
  'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const waiting = new Map(), events = [];
let session, number = 0, rest = Buffer.alloc(0);

chromium.stdio[4].on('data', data => {
  rest = Buffer.concat([rest, data]);
  for (let end; (end = rest.indexOf(0)) >= 0;) {
    const message = JSON.parse(rest.subarray(0, end));
    rest = rest.subarray(end + 1);
    if (!message.id) {
      events.push(message);
      continue;
    }
    const { resolve, reject } = waiting.get(message.id);
    waiting.delete(message.id);
    message.error ? reject(new Error(message.error.message)) : resolve(message.result);
  }
});

function send(method, params = {}) {
  return new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject });
    chromium.stdio[3].write(
      JSON.stringify({ id: number, method, params, sessionId: session }) + '\0');
  });
}

async function evaluate(expression) {
  const { result, exceptionDetails: e } = await send('Runtime.evaluate',
    { expression, returnByValue: true, awaitPromise: true });
  if (e)
    throw new Error(e.exception?.description || e.text);
  return result.value;
}

// Wait until an expression of the page is true.
async function until(what, expression) {
  for (const end = Date.now() + 120000; !(await evaluate(expression));) {
    if (Date.now() > end)
      throw new Error(`waited in vain for ${what}`);
    await new Promise(go => setTimeout(go, 50));
  }
}

// ---- the keyboard ----------------------------------------------------------
const SHIFT = 8;
const keys = { Enter: 13, Tab: 9, Escape: 27, ' ': 32, ArrowRight: 39 };

async function press(key, modifiers = 0) {
  const event = { key, code: key === ' ' ? 'Space' : key, modifiers,
    windowsVirtualKeyCode: keys[key] };
  const text = key === 'Enter' ? '\r' : key === ' ' ? ' ' : undefined;
  await send('Input.dispatchKeyEvent', { ...event, type: text ? 'keyDown' : 'rawKeyDown', text });
  await send('Input.dispatchKeyEvent', { ...event, type: 'keyUp' });
}

// Press Tab until the element with this id has the focus.
async function go_to(id) {
  for (let i = 0; i < 60; i++) {
    if (await evaluate(`document.activeElement.id`) === id)
      return;
    await press('Tab');
  }
  throw new Error(`Tab does not reach ${id}`);
}

async function screenshot(name) {
  await evaluate('scrollTo(0, 0)');
  const { contentSize } = await send('Page.getLayoutMetrics').then(m =>
    ({ contentSize: m.cssContentSize }));
  const { data } = await send('Page.captureScreenshot', { captureBeyondViewport: true,
    clip: { x: 0, y: 0, width: +width, height: contentSize.height, scale: 1 } });
  writeFileSync(`${folder}/${name}-${width}.png`, Buffer.from(data, 'base64'));
}

async function check_page(name) {
  check(`${name} is no wider than ${width} px`,
    await evaluate('document.documentElement.scrollWidth <= innerWidth'),
    await evaluate('document.documentElement.scrollWidth'));
  check(`${name} has a label for every control`, await evaluate(`[...document
    .querySelectorAll('input, select, textarea, button')].every(e =>
    e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label'))`),
    'a control without one');
  await screenshot(name);
}

const idle = '!document.getElementById("send").disabled';
const text = selector => evaluate(`[...document.querySelectorAll('${selector}')]
  .filter(e => e.checkVisibility()).map(e => e.textContent).join('|')`);

// ---- the test --------------------------------------------------------------
async function open() {
  const { targetInfos } = await send('Target.getTargets');
  const page = targetInfos.find(t => t.type === 'page').targetId;
  session = (await send('Target.attachToTarget', { targetId: page, flatten: true })).sessionId;
  for (const domain of ['Page', 'Runtime', 'Network', 'Log'])
    await send(domain + '.enable');
  await send('Emulation.setDeviceMetricsOverride',
    { width: +width, height, deviceScaleFactor: 1, mobile: false });
  await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme',
    value: process.env.PAGE_SCHEME || 'light' }] });
  await send('Emulation.setFocusEmulationEnabled', { enabled: true });
  await send('Page.navigate', { url });
}

async function ask_default() {
  await go_to('prompt');
  check('focus is visible', await evaluate(
    'getComputedStyle(document.activeElement).outlineStyle') === 'solid', 'no outline');
  await press('Enter');
  await until('the answer', `${idle} && document.querySelector('.answer').textContent !== '…'`);
  check('the default question has its right answer',
    (await text('.answer')).includes('= 42.'), await text('.answer'));
  check('figures are shown', /passes\d+/.test(await text('#figures tr')),
    await text('#figures tr'));
  check('the charts have axes and words', await evaluate(`['speed', 'passes', 'rows'].every(id =>
    document.querySelectorAll('#' + id + ' .tick').length > 4 &&
    document.querySelector('#' + id + ' svg').getAttribute('aria-label').length > 10)`),
    await text('figcaption'));
  check('the last tree is drawn if the method drafts',
    (await evaluate('lanes[0].drafts.length > 0')) ===
      (await evaluate('document.querySelectorAll(".tree rect.yes").length > 0')), 'it is not');
  await check_page('chat');
  await send('Input.insertText', { text: 'My name is Anna.' });
  await press('Enter');
  await until('the second answer', idle);
  await send('Input.insertText', { text: 'What is my name?' });
  await press('Enter');
  await until('the third answer', idle);
  check('a conversation has several turns', (await text('.answer')).includes('Anna') &&
    (await text('#log li')).includes('= 42.'), await text('#log li'));
}

async function stop_a_story() {
  await evaluate('scrollTo(0, 0), document.activeElement.blur()');
  await go_to('chat');
  await press('ArrowRight');
  await go_to('prompt');
  await evaluate('document.activeElement.select()');
  await send('Input.insertText', { text: 'Once upon a time' });
  await press('Enter');
  await until('the story to begin', 'lanes[0].words.length > 0');
  await press('Escape');
  await until('the story to stop', idle);
  check('Escape keeps the text so far', (await text('.answer')).length > 0, 'it is gone');
  await evaluate('document.activeElement.select()');
  await send('Input.insertText', { text: 'Problem: Calculate 7 * 8 + 5.' });
  await press('Enter', SHIFT);
  await send('Input.insertText', { text: 'Solution:' });
  await press('Enter');
  await until('a whole text', idle);
  check('a text has its right end', (await text('.answer')).includes('The answer is 61.'),
    await text('.answer'));
  await check_page('text');
}

async function race() {
  if (!(await evaluate('document.getElementById("races").checkVisibility()')))
    return;
  await go_to('race');
  await press(' ');
  await go_to('prompt');
  await press('Enter');
  await until('both texts', idle);
  check('two methods wrote', (await text('thead th')).split('|').filter(Boolean).length === 2,
    await text('thead th'));
  check('their texts are the same', (await text('#verdict')).includes('are the same'),
    await text('#verdict') + await text('.failed') + await text('.answer'));
  await check_page('race');
}

// A model that fills masks, and has no chat template.
async function fill() {
  await evaluate(`{ const show = lanes[0].show;
    lanes[0].show = function (soft) { this.seen = (this.seen || "") + soft; show.call(this, soft); }; }`);
  await go_to('prompt');
  await press('Enter');
  await until('masks', 'lanes[0].seen?.includes("▢")');
  await until('the text', idle);
  check('the text has no masks at its end', !(await text('.answer')).includes('▢'),
    await text('.answer'));
  check('a chat is not offered', await evaluate('document.getElementById("chat").disabled'),
    'it is');
  await check_page('fill');
}

async function run() {
  await open();
  if (apiKey) {
    await until('the question for a key', 'document.getElementById("access")?.checkVisibility()');
    await until('the focus', 'document.activeElement.id === "key"');
    await send('Input.insertText', { text: apiKey });
    await press('Enter');
  }
  await until('the models', 'document.readyState === "complete" && model.id');
  if (await evaluate('model.chat')) {
    await ask_default();
    await stop_a_story();
    await race();
  } else {
    await fill();
  }
  const wrong = events.filter(e => e.method === 'Runtime.exceptionThrown' ||
    (e.method === 'Log.entryAdded' && e.params.entry.level === 'error' && !apiKey));
  check('the console has no error', !wrong.length, JSON.stringify(wrong[0]));
  const asked = events.filter(e => e.method === 'Network.requestWillBeSent')
    .map(e => e.params.request.url).filter(u => !u.startsWith(url) && !u.startsWith('data:'));
  check('no other host is asked', !asked.length, asked[0]);
}

run().catch(e => check('the page', false, e.stack)).finally(() => {
  chromium.kill();
  chromium.on('exit', () => process.exit(failed ? 1 : 0));
});
