// The tool under measurement: it does nothing.
/** @type {(authoring: import('../../plugins/engine/operator-plugins.ts').Authoring) => unknown} */
export default ({ definePlugin, defineTool, text }) =>
  definePlugin({ name: 'bench-echo' }, (tools) => {
    tools.register(
      defineTool({
        name: 'echo',
        description: 'Returns its text.',
        parameters: { text: { type: 'string', required: true } },
        output: { schema: { type: 'string' }, render: (_args, value) => text(value) },
        isConcurrencySafe: () => true,
        execute: ({ text: value }) => value
      })
    )
  })
