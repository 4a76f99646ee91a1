/** A minimal webhook receiver, as in the README of `@fairlead/receiver`. */
export const receiverSnippet = `import { createReceiver } from '@fairlead/receiver'
import Koa from 'koa'

const receiver = createReceiver({ secrets: [process.env.FAIRLEAD_WEBHOOK_SECRET ?? ''] })
receiver.on('deployment.succeeded', ({ data }) => console.log('running at', data.url))

new Koa().use(receiver.middleware({ path: '/webhooks/fairlead' })).listen(4000)`

/** Returns the workflow that deploys a repository to a project on every push to its main branch, with a stored key. */
export function workflowSnippet(origin: string, projectId: string): string {
  return workflow([
    `          api-url: ${origin}`,
    `          api-key: \${{ secrets.FAIRLEAD_API_KEY }}`,
    `          project-id: ${projectId}`,
  ])
}

/** Returns the workflow of a trusted repository, which needs no key. */
export function trustedWorkflowSnippet(origin: string, projectId: string): string {
  return workflow([`          api-url: ${origin}`, `          project-id: ${projectId}`], trusted)
}

const trusted = ['    permissions:', '      id-token: write', '      contents: read']

function workflow(inputs: readonly string[], permissions: readonly string[] = []): string {
  return [
    '# .github/workflows/deploy.yml',
    'name: Deploy',
    'on:',
    '  push:',
    '    branches: [main]',
    'jobs:',
    '  deploy:',
    '    runs-on: ubuntu-latest',
    ...permissions,
    '    steps:',
    '      - uses: OWNER/fairlead@v1',
    '        with:',
    ...inputs,
  ].join('\n')
}
