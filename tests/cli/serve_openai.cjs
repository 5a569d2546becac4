// What OpenAI's own client makes of the server: serve_openai.sh starts both.
// Arguments: the folder of node modules, and two servers' addresses, of a model
// that continues text and of one that chats.
'use strict';
const assert = require('node:assert');
const [modules, texts, chats] = process.argv.slice(2);
const OpenAI = require(modules + '/openai').default;
const open = url => new OpenAI({ baseURL: url + '/v1', apiKey: 'any',
  maxRetries: 0 });
const text = open(texts), chat = open(chats);
// A model of random weights: greedy it would end at once.
const drawn = { model: 'chats', temperature: 1, seed: 4,
  max_completion_tokens: 8, messages: [{ role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello?' }] };

async function all(stream) {
  const chunks = [];
  for await (const chunk of stream)
    chunks.push(chunk);
  return chunks;
}

const tests = {
  async 'models are listed'() {
    const list = await text.models.list();
    assert.deepStrictEqual(list.data.map(m => m.id), ['target']);
  },

  async 'a completion is the same whole and as a stream'() {
    const ask = { model: 'target', prompt: 'Once upon a time', max_tokens: 12 };
    const whole = await text.completions.create(ask);
    const chunks = await all(
      await text.completions.create({ ...ask, stream: true }));
    assert.strictEqual(whole.choices[0].finish_reason, 'length');
    assert.strictEqual(whole.usage.completion_tokens, 12);
    assert.strictEqual(chunks.map(c => c.choices[0].text).join(''),
      whole.choices[0].text);
    assert.strictEqual(whole.settings.method, 'autoregressive');
    assert.ok(chunks.at(-1).timings.predicted_n === 12);
  },

  async 'a chat is the same whole and as a stream'() {
    const whole = await chat.chat.completions.create(drawn);
    const chunks = await all(await chat.chat.completions.create({ ...drawn,
      stream: true, stream_options: { include_usage: true } }));
    assert.strictEqual(whole.choices[0].message.role, 'assistant');
    assert.ok(whole.choices[0].message.content.length > 0);
    assert.strictEqual(chunks.flatMap(c => c.choices)
      .map(c => c.delta.content).join(''), whole.choices[0].message.content);
    assert.strictEqual(chunks[0].choices[0].delta.role, 'assistant');
    assert.deepStrictEqual(chunks.at(-1).choices, []);
    assert.strictEqual(chunks.at(-1).usage.total_tokens,
      whole.usage.total_tokens);
  },

  async 'the client puts a stream together itself'() {
    const stream = chat.chat.completions.stream(drawn);
    const final = await stream.finalChatCompletion();
    const whole = await chat.chat.completions.create(drawn);
    assert.strictEqual(final.choices[0].message.content,
      whole.choices[0].message.content);
  },

  async 'n texts of a seed are drawn, and drawn again'() {
    const ask = { model: 'target', prompt: 'Once', max_tokens: 8, n: 3,
      temperature: 1, seed: 5 };
    const [a, b] = [await text.completions.create(ask),
      await text.completions.create(ask)];
    assert.deepStrictEqual(a.choices, b.choices);
    assert.deepStrictEqual(a.choices.map(c => c.index), [0, 1, 2]);
    assert.ok(new Set(a.choices.map(c => c.text)).size > 1);
  },

  async 'a text ends before a stop string'() {
    const ask = { model: 'target', prompt: 'Once upon a time', max_tokens: 40 };
    const whole = (await text.completions.create(ask)).choices[0].text;
    const stop = whole.slice(10, 13);
    const cut = (await text.completions.create({ ...ask, stop })).choices[0];
    assert.strictEqual(cut.text, whole.slice(0, whole.indexOf(stop)));
    assert.strictEqual(cut.finish_reason, 'stop');
  },

  async 'tokens say how likely they were'() {
    const answer = await chat.chat.completions.create({ ...drawn,
      logprobs: true, top_logprobs: 3 });
    const tokens = answer.choices[0].logprobs.content;
    assert.strictEqual(tokens.map(t => t.token).join(''),
      answer.choices[0].message.content);
    assert.strictEqual(tokens.length, answer.usage.completion_tokens);
    for (const t of tokens) {
      assert.strictEqual(t.top_logprobs.length, 3);
      assert.ok(t.logprob <= t.top_logprobs[0].logprob && t.logprob < 0);
    }
    const legacy = (await text.completions.create({ model: 'target',
      prompt: 'Once', max_tokens: 4, logprobs: 2 })).choices[0];
    assert.strictEqual(legacy.logprobs.tokens.join(''), legacy.text);
  },

  async 'an answer fits a schema'() {
    const schema = { type: 'object', properties: { yes: { type: 'boolean' },
      of: { enum: ['cats', 'dogs'] } }, required: ['yes', 'of'],
    additionalProperties: false };
    const answer = await chat.chat.completions.parse({ ...drawn,
      max_completion_tokens: 200, response_format: { type: 'json_schema',
        json_schema: { name: 'a', strict: true, schema } } });
    assert.strictEqual(answer.choices[0].finish_reason, 'stop');
    const value = JSON.parse(answer.choices[0].message.content);
    assert.deepStrictEqual(Object.keys(value).sort(), ['of', 'yes']);
    assert.strictEqual(typeof value.yes, 'boolean');
    assert.ok(['cats', 'dogs'].includes(value.of));
  },

  // The client asks for base64 and decodes it, unless a format is given.
  async 'embeddings are the same in both formats, together and alone'() {
    const input = ['The cat sleeps.', 'A dog', 'Once upon a time'];
    const of = async (input, more) => (await text.embeddings.create({
      model: 'target', input, ...more })).data.map(d => d.embedding);
    const all = await of(input), numbers = await of(input,
      { encoding_format: 'float' });
    assert.strictEqual(all.length, 3);
    for (let i = 0; i < 3; i++) {
      const v = all[i], [alone] = await of(input[i]);
      assert.strictEqual(v.length, 384);
      assert.ok(Math.abs(v.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
      assert.deepStrictEqual(alone, v);
      assert.deepStrictEqual(numbers[i].map(Math.fround), v);
    }
    const [short] = await of('A dog', { dimensions: 96 });
    assert.strictEqual(short.length, 96);
    assert.ok(Math.abs(short.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
    assert.ok(Math.abs(short[7] / short[3] - all[1][7] / all[1][3]) < 1e-3);
  },

  async 'errors are the client\'s own'() {
    const refused = async (ask, status, code, param) =>
      assert.rejects(ask, e => {
        assert.ok(e instanceof OpenAI.APIError);
        assert.deepStrictEqual([e.status, e.code, e.param],
          [status, code, param]);
        return true;
      });
    await refused(text.completions.create({ model: 'gpt', prompt: '' }),
      404, 'model_not_found', 'model');
    await refused(text.completions.create({ model: 'target', prompt: 'x',
      max_tokens: 5000 }), 400, 'context_length_exceeded', 'prompt');
    await refused(text.chat.completions.create({ ...drawn, model: 'target',
      tools: [{ type: 'function', function: { name: 'f', parameters: {
        type: 'object', properties: { x: { format: 'uri' } } } } }],
      tool_choice: 'required' }),
    400, 'invalid_value', 'tools[0].function.parameters');
    await refused(text.embeddings.create({ model: 'target',
      input: 'a '.repeat(3000) }), 400, 'context_length_exceeded', 'input');
    await refused(text.embeddings.create({ model: 'target', input: 'a',
      dimensions: 385 }), 400, 'invalid_value', 'dimensions');
    await refused(text.completions.create({ model: 'target', prompt: 'x',
      temperature: 'hot', stream: true }), 400, 'invalid_type', 'temperature');
  },

  async 'a stream that is left is computed no more'() {
    const left = async () =>
      +(await (await fetch(texts + '/metrics')).text())
        .match(/^tandem_texts_canceled_total\{.*\} (\d+)/m)[1];
    const before = await left();
    const stream = await text.completions.create({ model: 'target',
      prompt: 'Once', max_tokens: 900, temperature: 2, seed: 1, stream: true });
    for await (const _ of stream)
      break;
    for (let i = 0; i < 100 && await left() === before; i++)
      await new Promise(done => setTimeout(done, 50));
    assert.strictEqual(await left(), before + 1);
  },
};

(async () => {
  let failed = 0;
  for (const [name, test] of Object.entries(tests))
    try {
      await test();
      console.log('ok ' + name);
    } catch (e) {
      failed++;
      console.log('FAIL ' + name + ': ' + e.stack);
    }
  process.exit(failed ? 1 : 0);
})();
