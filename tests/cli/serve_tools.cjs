// Tools and responses with OpenAI's own client, and an agent that runs a loop
// with a tool: serve_tools.sh starts the servers.
// Arguments: the folder of node modules, and two servers' addresses: of the
// bundled model, and of one whose template has tools.
'use strict';
const assert = require('node:assert');
const [modules, target, qwen] = process.argv.slice(2);
const full = process.env.TANDEM_TEST_FULL === 'yes';
const OpenAI = require(modules + '/openai').default;
const open = url => new OpenAI({ baseURL: url + '/v1', apiKey: 'any',
  maxRetries: 0 });
const chat = open(target), drawn = open(qwen);
const parameters = { type: 'object', properties: {
  city: { enum: ['Oslo', 'Rome'] },
  days: { type: 'integer', minimum: 1, maximum: 9 } },
required: ['city', 'days'], additionalProperties: false };
const flat = [{ type: 'function', name: 'weather',
  description: 'The weather of a city.', parameters, strict: true }];
const tools = flat.map(({ type, ...f }) => ({ type, function: f }));
const user = { role: 'user', content: 'What is the weather in Oslo?' };
const ask = { model: 'target', messages: [user], tools,
  tool_choice: 'required' };

async function all(stream) {
  const events = [];
  for await (const event of stream)
    events.push(event);
  return events;
}

function fits(text) {
  const value = JSON.parse(text);
  assert.deepStrictEqual(Object.keys(value).sort(), ['city', 'days']);
  assert.ok(['Oslo', 'Rome'].includes(value.city));
  assert.ok(Number.isInteger(value.days) && value.days > 0 && value.days < 10);
}

const tests = {
  async 'a chat calls a tool and goes on with its result'() {
    const { choices: [choice] } = await chat.chat.completions.create(ask);
    assert.strictEqual(choice.finish_reason, 'tool_calls');
    assert.strictEqual(choice.message.content, null);
    const [call] = choice.message.tool_calls;
    assert.strictEqual(call.function.name, 'weather');
    fits(call.function.arguments);
    const next = await chat.chat.completions.create({ ...ask,
      tool_choice: 'none', messages: [user, choice.message,
        { role: 'tool', tool_call_id: call.id, content: 'Sunny.' }] });
    assert.ok(next.choices[0].message.content.length > 0);
    assert.strictEqual(next.choices[0].finish_reason, 'stop');
  },

  async 'a stream of calls is put together by the client'() {
    const whole = await chat.chat.completions.create(ask);
    const stream = chat.chat.completions.stream({ ...ask,
      tool_choice: { type: 'function', function: { name: 'weather' } } });
    const final = await stream.finalChatCompletion();
    const [a, b] = [whole, final].map(x => x.choices[0].message.tool_calls[0]);
    assert.deepStrictEqual(a.function.arguments, b.function.arguments);
    assert.strictEqual(final.choices[0].finish_reason, 'tool_calls');
  },

  async 'a call cut short has the arguments so far'() {
    const whole = await chat.chat.completions.create(ask);
    const { choices: [cut] } = await chat.chat.completions.create({ ...ask,
      max_tokens: whole.usage.completion_tokens - 5 });
    assert.strictEqual(cut.finish_reason, 'length');
    const [a, b] = [whole.choices[0], cut].map(
      c => c.message.tool_calls[0].function.arguments);
    assert.ok(a.startsWith(b) && b.length && b.length < a.length);
  },

  async 'with auto the model answers or calls'() {
    const seen = {};
    for (let seed = 0; seed < 80 &&
      (full || !seen.tool_calls || !seen.stop); seed++) {
      const { choices: [choice] } = await drawn.chat.completions.create({
        ...ask, model: 'qwen', tool_choice: 'auto', temperature: 1.5, seed,
        max_tokens: 400 });
      const calls = choice.message.tool_calls ?? [];
      seen[choice.finish_reason] = (seen[choice.finish_reason] ?? 0) + 1;
      if (choice.finish_reason === 'tool_calls')
        for (const call of calls)
          fits(call.function.arguments);
      else if (choice.finish_reason === 'stop')
        assert.deepStrictEqual(calls, []);
    }
    console.log(seen);
    assert.ok(seen.tool_calls > 0 && seen.stop > 0);
    await assert.rejects(chat.chat.completions.create({ ...ask,
      tool_choice: 'auto' }), e => e.param === 'tool_choice');
  },

  async 'parallel_tool_calls false allows one call'() {
    let most = 0;
    for (let seed = 0; seed < 40 && (full || most < 2); seed++) {
      const of = async parallel_tool_calls =>
        (await drawn.chat.completions.create({ ...ask, model: 'qwen',
          parallel_tool_calls, temperature: 1.5, seed, max_tokens: 400,
        })).choices[0].message.tool_calls?.length ?? 0;
      assert.ok(await of(false) <= 1);
      most = Math.max(most, await of(true));
    }
    assert.ok(most > 1);
  },

  async 'a response continues an earlier one'() {
    const first = await chat.responses.create({ model: 'target',
      input: 'I live in Foxley.', instructions: 'Your name is Nora.' });
    assert.strictEqual(first.status, 'completed');
    assert.ok(first.output_text.length > 0);
    const next = await chat.responses.create({ model: 'target',
      previous_response_id: first.id, input: 'Where do I live?' });
    assert.match(next.output_text, /Foxley/);
    assert.ok(next.usage.input_tokens > first.usage.input_tokens);
    const again = await chat.responses.create({ model: 'target', input: [
      { role: 'user', content: 'I live in Foxley.' }, ...first.output,
      { role: 'user', content: [{ type: 'input_text',
        text: 'Where do I live?' }] }] });
    assert.strictEqual(again.output_text, next.output_text);
    const { id, output } = await chat.responses.retrieve(first.id);
    assert.deepStrictEqual([id, output], [first.id, first.output]);
    await chat.responses.delete(first.id);
    const gone = e => e instanceof OpenAI.NotFoundError;
    await assert.rejects(chat.responses.retrieve(first.id), gone);
    await assert.rejects(chat.responses.create({ model: 'target', input: 'x',
      previous_response_id: first.id }), gone);
    const loose = await chat.responses.create({ model: 'target', input: 'Hi',
      store: false });
    await assert.rejects(chat.responses.retrieve(loose.id), gone);
  },

  async 'a response is the same whole and as a stream'() {
    const q = { model: 'target', input: 'What is 12 + 30?' };
    const whole = await chat.responses.create(q);
    const events = await all(await chat.responses.create({ ...q,
      stream: true }));
    assert.deepStrictEqual(events.map(e => e.sequence_number),
      events.map((e, i) => i));
    assert.deepStrictEqual(events.map(e => e.type)
      .filter((t, i, list) => t !== list[i - 1]), ['response.created',
      'response.in_progress', 'response.output_item.added',
      'response.content_part.added', 'response.output_text.delta',
      'response.output_text.done', 'response.content_part.done',
      'response.output_item.done', 'response.completed']);
    const text = events.filter(e => e.type === 'response.output_text.delta')
      .map(e => e.delta).join('');
    assert.strictEqual(text, whole.output_text);
    const last = events.at(-1).response;
    assert.strictEqual(last.output[0].content[0].text, text);
    assert.strictEqual(last.usage.total_tokens, whole.usage.total_tokens);
    const final = await chat.responses.stream(q).finalResponse();
    assert.strictEqual(final.output_text, text);
  },

  async 'responses call tools'() {
    const q = { model: 'target', tools: flat, tool_choice: 'required' };
    const first = await chat.responses.create({ ...q, input: user.content });
    const [call] = first.output;
    assert.strictEqual(call.type, 'function_call');
    fits(call.arguments);
    const stream = await chat.responses.stream({ ...q, input: user.content,
      tool_choice: { type: 'function', name: 'weather' } }).finalResponse();
    assert.strictEqual(stream.output[0].arguments, call.arguments);
    const item = { type: 'function_call_output', call_id: call.call_id,
      output: 'Sunny.' };
    const next = await chat.responses.create({ model: 'target', input: [item],
      previous_response_id: first.id });
    assert.ok(next.output_text.length > 0);
    const again = await chat.responses.create({ model: 'target',
      input: [user, call, item] });
    assert.strictEqual(again.output_text, next.output_text);
    await assert.rejects(chat.responses.create({ model: 'target', input: 'x',
      previous_response_id: first.id }), e => e.param === 'input');
    await assert.rejects(chat.responses.create({ model: 'target',
      input: [{ ...item, call_id: 'other' }] }),
    e => e.param === 'input[0].call_id');
  },

  async 'a response has a format and limits'() {
    const cut = await chat.responses.create({ model: 'target',
      input: 'What is 12 + 30?', max_output_tokens: 3 });
    assert.deepStrictEqual([cut.status, cut.incomplete_details],
      ['incomplete', { reason: 'max_output_tokens' }]);
    const json = await chat.responses.parse({ model: 'target', input: 'Hi',
      metadata: { a: 'b' }, text: { format: { type: 'json_schema', name: 'w',
        strict: true, schema: parameters } } });
    fits(json.output_text);
    assert.deepStrictEqual(json.metadata, { a: 'b' });
    const refused = (more, param) => assert.rejects(chat.responses.create({
      model: 'target', input: 'x', ...more }), e => {
      assert.deepStrictEqual([e.status, e.param], [400, param]);
      return true;
    });
    await refused({ truncation: 'auto' }, 'truncation');
    await refused({ reasoning: { effort: 'high' } }, 'reasoning');
    await refused({ stop: ['x'] }, 'stop');
    await refused({ max_output_tokens: -1 }, 'max_output_tokens');
    await refused({ store: 1 }, 'store');
    await refused({ background: true }, 'background');
    await refused({ input: [{ type: 'reasoning' }] }, 'input[0]');
    await refused({ input: [{ role: 'user', content: [{
      type: 'input_image', image_url: 'x' }] }] }, 'input[0].content');
    await refused({ tools: [{ type: 'web_search' }] }, 'tools[0].type');
    await refused({ text: { format: { type: 'json_schema', name: 'w',
      schema: { pattern: 'a' } } } }, 'text.format');
  },

  async 'an agent runs a loop with a tool'() {
    let agents;
    try {
      agents = require(modules + '/@openai/agents');
    } catch (e) {
      console.log('no @openai/agents: ' + e.message.split('\n')[0]);
      return;
    }
    const { Agent, Runner, OpenAIProvider, tool } = agents;
    for (const useResponses of [false, true]) {
      const asked = [];
      const weather = tool({ name: 'weather', strict: true, parameters,
        description: 'The weather of a city.',
        execute: async given => {
          asked.push(given);
          return 'It is sunny in ' + given.city + '.';
        } });
      const agent = new Agent({ name: 'a', model: 'target',
        instructions: 'Be brief.', tools: [weather],
        modelSettings: { toolChoice: 'required' },
        toolUseBehavior: { stopAtToolNames: ['weather'] } });
      const runner = new Runner({ tracingDisabled: true,
        modelProvider: new OpenAIProvider({ openAIClient: chat,
          useResponses }) });
      const result = await runner.run(agent, user.content);
      assert.strictEqual(asked.length, 1);
      fits(JSON.stringify(asked[0]));
      assert.match(result.finalOutput, /sunny/);
      // After a call the agent itself asks with tool_choice auto, so a model
      // whose template has tools goes on.
      const loop = new Agent({ name: 'b', model: 'qwen', tools: [weather],
        modelSettings: { toolChoice: 'required', temperature: 1, maxTokens: 300,
          providerData: { seed: 2, repeat_last: 0 } } });
      const on = new Runner({ tracingDisabled: true,
        modelProvider: new OpenAIProvider({ openAIClient: drawn,
          useResponses }) });
      asked.length = 0;
      const end = await on.run(loop, user.content, { maxTurns: 8 });
      assert.ok(asked.length >= 1);
      assert.strictEqual(typeof end.finalOutput, 'string');
    }
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
