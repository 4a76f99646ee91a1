import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { createReceiver } from '@fairlead/receiver'
import Koa from 'koa'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bundleOf, uploadBundle } from '../../harness/bundle.ts'
import { chromiumPath, noChromium } from '../../harness/chromium.ts'
import { type SharedDashboard, sharedDashboard } from '../../harness/dashboard/of-run.ts'
import { query } from '../../harness/databases.ts'
import { deployAndSettle } from '../../harness/deployments.ts'
import { listening } from '../../harness/listening.ts'
import { nodeApp, type Repository, repository } from '../../harness/repository.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

if (chromiumPath === undefined) noChromium('all steps of a user of the dashboard')

/** An app that writes to its log, and returns its variables at /variables. */
function loggingApp(answer: string): Record<string, string> {
  return {
    ...nodeApp(answer),
    'server.js': `console.log('shop is open')
const { GREETING, LEVEL, COLOUR } = process.env
require('node:http').createServer((request, response) => {
  response.end(request.url === '/variables' ? JSON.stringify([GREETING, LEVEL, COLOUR]) : ${JSON.stringify(answer)})
}).listen(process.env.PORT)
`,
  }
}

const user = { email: 'story@example.com', password: 'correct horse battery staple' }

/** Every test continues where the previous test ended, from the setup link on. */
describe.skipIf(chromiumPath === undefined)('a user of the dashboard', () => {
  let dashboard: SharedDashboard
  let page: Page
  let app: Repository
  let key = ''
  let projectId = ''
  const releases: string[] = []
  const button = (name: string | RegExp) => page.getByRole('button', { name })
  const dialog = () => page.getByRole('dialog')
  const url = (path: string) => dashboard.server.url + path

  beforeAll(async () => {
    dashboard = await sharedDashboard()
    page = await (await dashboard.context({ acceptDownloads: true })).newPage()
    page.setDefaultTimeout(60_000)
    app = await repository(loggingApp('first'))
  })
  afterAll(async () => {
    await app[Symbol.asyncDispose]()
    await dashboard[Symbol.asyncDispose]()
  })

  const deploy = async (name: string, gitUrl: string): Promise<string> => {
    await page.goto(url(`/projects/${projectId}/deployments`))
    await button('Deploy').click()
    await dialog().getByLabel('App').fill(name)
    await dialog().getByLabel('Git repository').fill(gitUrl)
    await dialog().getByRole('button', { name: 'Paste or upload a dotenv file' }).click()
    const dotenv = dialog().getByLabel('Text of a dotenv file')
    await dotenv.fill('GREETING="hello you"\nexport LEVEL')
    await dialog().getByRole('alert').getByText('Line 2: has no "="').waitFor()
    expect(await dialog().getByLabel('Value of variable 1').count()).toBe(0)
    await dotenv.fill('# from a file\nGREETING="hello you"\nexport LEVEL=3')
    expect(await dialog().getByRole('alert').count()).toBe(0)
    expect(await dialog().getByLabel('Value of variable 1').inputValue()).toBe('hello you')
    await dialog().getByRole('button', { name: 'Deploy' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    // The list stays on the screen until the next page is loaded.
    await page.getByLabel('Lines of the log').waitFor()
    return page.url().split('/').at(-1) ?? ''
  }

  it('is created by a setup link, which works once', async () => {
    const link = await dashboard.setupLink()
    await page.goto(link)
    await page.getByLabel('E-mail').fill(user.email)
    await page.getByLabel('Password').fill('short')
    await button('Create user').click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('E-mail').inputValue()).toBe(user.email)
    await page.getByLabel('Password').fill(user.password)
    await button('Create user').click()
    await page.waitForURL(url('/get-started'))
    const other = await (await dashboard.context()).newPage()
    await other.goto(link)
    await other.getByText('This link has been used or has expired').waitFor()
    await other.context().close()
  })

  it('signs out and in again, and returns to the requested page', async () => {
    await button('Sign out').click()
    await page.waitForURL(/\/sign-in/)
    await page.goto(url('/settings/sessions'))
    await page.waitForURL(/\/sign-in\?next=/)
    await page.getByLabel('E-mail').fill(user.email)
    await page.getByLabel('Password').fill('not this one at all')
    await button('Sign in').click()
    await page.getByText('The e-mail address or the password is wrong.').waitFor()
    await page.getByLabel('Password').fill(user.password)
    await page.keyboard.press('Enter')
    await page.waitForURL(url('/settings/sessions'))
    await page.getByText('this session').waitFor()
  })

  it('creates a project', async () => {
    await page.getByRole('link', { name: 'Projects' }).click()
    await button('New project').click()
    await dialog().getByLabel('Name').fill('Shop')
    await dialog().getByRole('button', { name: 'Create project' }).click()
    await page.waitForURL(/\/projects\/proj_/)
    projectId = page.url().split('/').at(-1) ?? ''
    await page.getByRole('heading', { name: 'Shop', level: 1 }).waitFor()
    await page.getByText('Nothing is deployed yet').waitFor()
  })

  it('creates an API key, which is shown once and is valid for /v1', async () => {
    await page.getByRole('link', { name: 'Settings' }).first().click()
    await page.getByRole('link', { name: 'Settings', exact: true }).first().click()
    await page.waitForURL(url('/settings/api-keys'))
    await button('Create new key').click()
    await dialog().getByLabel('Name').fill('Pipeline')
    await dialog().getByRole('button', { name: 'Create key' }).click()
    const secret = dialog().getByLabel('Your new API key', { exact: true }).last()
    await secret.waitFor()
    key = (await secret.textContent())?.trim() ?? ''
    expect(key).toMatch(/^fl_\w{36}$/)
    // Escape must not close the dialog, or the key would be lost.
    await page.keyboard.press('Escape')
    await button('I have stored it').click()
    await page.reload()
    await page.getByRole('button', { name: 'Actions for Pipeline' }).waitFor()
    expect(await page.content()).not.toContain(key)
    const { projects } = await dashboard.server.clientFor(key).projects.list({})
    expect(projects.map(({ id }) => id)).toEqual([projectId])
  })

  it('deploys an app and watches it until it is running', async () => {
    releases.push(await deploy('storefront', app.url))
    await page.getByRole('definition').getByText('running').waitFor()
    await page.getByLabel('Lines of the log').getByText('shop is open').waitFor()
    const steps = page.getByRole('region', { name: 'Steps' }).getByRole('listitem')
    const shown = async () => (await steps.allTextContents()).map((step) => /^[a-z]+?(?=done)/.exec(step)?.[0])
    await expect.poll(shown).toEqual(['queued', 'fetch', 'plan', 'build', 'start', 'check', 'switch'])
    const address = await page.getByRole('link', { name: /^http:/ }).getAttribute('href')
    expect(await (await fetch(address ?? '')).text()).toBe('first')
    const download = page.waitForEvent('download')
    await button('Download').click()
    expect(await text(await (await download).createReadStream())).toContain('shop is open')
  })

  it('sees the reason of a failure first', async () => {
    await using broken = await repository({
      'package.json': JSON.stringify({ scripts: { build: 'node build.js', start: 'node server.js' } }),
      'build.js': "console.error('no such basket'); process.exit(3)",
    })
    await deploy('checkout', broken.url)
    const alert = page.getByRole('alert')
    await alert.getByText('Failed in the step build').waitFor()
    expect(await alert.textContent()).toContain('no such basket')
    await page.getByRole('region', { name: 'Steps' }).getByText('failed').waitFor()
    await page.getByRole('definition').getByText('failed').waitFor()
  })

  it('chooses one of the folders that hold apps', async () => {
    const files = Object.entries(loggingApp('below')).map(([path, text]) => [`services/shop/${path}`, text])
    await using several = await repository({ 'README.md': 'see services', ...Object.fromEntries(files) })
    await deploy('several', several.url)
    await page.getByRole('alert').getByText('Failed in the step plan').waitFor()
    await button('Deploy services/shop (node)').click()
    expect(await page.getByLabel('Folder').inputValue()).toBe('services/shop')
    await page.getByRole('dialog').getByRole('button', { name: 'Deploy', exact: true }).click()
    await page.getByRole('definition').getByText('running').waitFor()
    await page.getByRole('definition').getByText('services/shop').waitFor()
  })

  it('rolls back', async () => {
    const first = await app.git('rev-parse', 'HEAD')
    const second = await app.commit(loggingApp('second'))
    releases.push(await deploy('storefront', app.url))
    await page.getByRole('definition').getByText('running').waitFor()
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    expect(await (await fetch(address)).text()).toBe('second')
    await page.goto(url(`/projects/${projectId}/deployments/${releases[0]}`))
    await button('Roll back to this').click()
    const sides = ['Now', 'After the rollback'].map((name) => dialog().getByRole('region', { name }))
    const hashes = await Promise.all(sides.map((side) => side.locator('code').textContent()))
    expect(hashes).toEqual([second.slice(0, 12), first.slice(0, 12)])
    await page.keyboard.press('Escape')
    await dialog().waitFor({ state: 'detached' })
    expect(await (await fetch(address)).text()).toBe('second')
    await button('Roll back to this').click()
    await dialog().getByRole('button', { name: 'Roll back' }).click()
    await page.getByRole('definition').getByText('running').waitFor()
    expect(await (await fetch(address)).text()).toBe('first')
  })

  it('promotes the serving release to another app, without a build', async () => {
    const before = page.url()
    await button('Promote').click()
    await dialog().getByLabel('App').fill('storefront-production')
    await dialog().getByRole('button', { name: 'Promote' }).click()
    await page.waitForURL((next) => next.href !== before)
    await page.getByRole('definition').getByText('running').waitFor()
    await page.getByRole('definition').getByText(String(releases[0])).waitFor()
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    expect(await (await fetch(address)).text()).toBe('first')
    await page.goto(before)
  })

  it('changes variables after the rollback, and applies them to the serving commit', async () => {
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    const variables = async () => (await fetch(`${address}/variables`)).json()
    expect(await variables()).toEqual(['hello you', '3', null])
    await page.getByRole('listitem').getByText('GREETING').waitFor()
    await page.getByRole('link', { name: 'Change variables' }).click()
    await page.getByRole('row', { name: 'GREETING secret' }).waitFor()
    // A secret value is not shown, so a form that sent its displayed values would empty it.
    await button('Actions for GREETING').click()
    await page.getByRole('menuitem', { name: 'Change' }).click()
    await dialog().getByRole('button', { name: 'Save' }).click()
    await dialog().getByText('Nothing was changed.').waitFor()
    await dialog().getByLabel('Kind').selectOption('plain')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await dialog().getByText('Write the value, too: a secret one cannot be read again.').waitFor()
    const marked = dialog().getByLabel('Value of variable 1')
    expect(await marked.getAttribute('aria-invalid')).toBe('true')
    // The form has nothing left to save, so the error disappears.
    await dialog().getByLabel('Kind').selectOption('secret')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await dialog().getByText('Nothing was changed.').waitFor()
    expect(await marked.getAttribute('aria-invalid')).toBeNull()
    await marked.fill('x')
    await dialog().getByText('Nothing was changed.').waitFor({ state: 'detached' })
    await dialog().getByRole('button', { name: 'Cancel' }).click()
    await button('Add variables').click()
    await dialog().getByRole('button', { name: 'Paste or upload a dotenv file' }).click()
    const file = { name: '.env', mimeType: 'text/plain', buffer: Buffer.from('COLOUR=blue\n') }
    await dialog().getByLabel('Dotenv file', { exact: true }).setInputFiles(file)
    await dialog().getByLabel('Name of variable 1').waitFor()
    await dialog().getByLabel('Kind').selectOption('plain')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await page.getByRole('row', { name: 'COLOUR blue' }).waitFor()
    // The form says Secret, so all variables in it become secret, even a plain one.
    await button('Actions for LEVEL').click()
    await page.getByRole('menuitem', { name: 'Change' }).click()
    await dialog().getByLabel('Value of variable 1').fill('4')
    await button('Add a variable').click()
    await dialog().getByLabel('Name of variable 2').fill('COLOUR')
    await dialog().getByLabel('Value of variable 2').fill('blue')
    await dialog().getByRole('button', { name: 'Save' }).click()
    await page.getByRole('row', { name: 'COLOUR secret' }).waitFor()
    expect(await variables()).toEqual(['hello you', '3', null])
    await button('Apply').click()
    await dialog().getByText('Added: COLOUR').waitFor()
    await dialog().getByText('Changed: LEVEL').waitFor()
    await dialog().getByRole('button', { name: 'Apply' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    await page.getByRole('definition').getByText('running').waitFor()
    expect(await variables()).toEqual(['hello you', '4', 'blue'])
    // The newest commit of the branch answers differently: it was rolled back.
    expect(await (await fetch(address)).text()).toBe('first')
    expect(await page.content()).not.toContain('hello you')
  })

  it('keeps all variables when an app is redeployed by its name, and removes one', async () => {
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    const variables = async () => (await fetch(`${address}/variables`)).json()
    await page.goto(url(`/projects/${projectId}/deployments`))
    await button('Deploy').click()
    await dialog().getByLabel('App').fill('storefront')
    await dialog().getByLabel('Git repository').fill(app.url)
    await dialog().getByRole('button', { name: 'Deploy' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    await page.getByRole('definition').getByText('running').waitFor()
    expect(await variables()).toEqual(['hello you', '4', 'blue'])
    await page.getByRole('link', { name: 'Change variables' }).click()
    await button('Actions for COLOUR').click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await dialog().getByRole('button', { name: 'Remove variable' }).click()
    await button('Apply').click()
    await dialog().getByText('Removed: COLOUR').waitFor()
    await dialog().getByRole('button', { name: 'Apply' }).click()
    await page.waitForURL(/\/deployments\/dep_/)
    await page.getByRole('definition').getByText('running').waitFor()
    expect(await variables()).toEqual(['hello you', '4', null])
  })

  it('redeploys an uploaded source with another variable', async () => {
    const client = dashboard.server.clientFor(key)
    const { id: source_id } = await uploadBundle(client, projectId, await bundleOf(app, 'main'))
    const { id, commit } = await deployAndSettle(client, projectId, { name: 'bundled', source_id })
    await page.goto(url(`/projects/${projectId}/deployments/${id}`))
    await page.getByRole('definition').getByText('uploaded', { exact: true }).waitFor()
    await button('Redeploy').click()
    await dialog()
      .getByText(String(commit?.slice(0, 12)))
      .waitFor()
    expect(await dialog().getByLabel('Git repository').count()).toBe(0)
    await dialog().getByRole('button', { name: 'Add a variable' }).click()
    await dialog().getByLabel('Name of variable 1').fill('GREETING')
    await dialog().getByLabel('Value of variable 1').fill('hello')
    await dialog().getByRole('button', { name: 'Deploy' }).click()
    await page.waitForURL((next) => !next.href.endsWith(id))
    await page.getByRole('definition').getByText('running').waitFor()
    const address = (await page.getByRole('link', { name: /^http:/ }).getAttribute('href')) ?? ''
    expect(await (await fetch(`${address}/variables`)).json()).toEqual(['hello', null, null])
  })

  it('creates a database and connects to it', async () => {
    await page.goto(url(`/projects/${projectId}/databases`))
    await button('New database').click()
    await dialog().getByLabel('Name').fill('orders')
    await dialog().getByRole('button', { name: 'Create database' }).click()
    const secret = dialog().getByLabel('Connection string', { exact: true }).last()
    await secret.waitFor()
    const connection = (await secret.textContent())?.trim() ?? ''
    const box = `document.querySelector('section[aria-label="Connection string"]')`
    expect(await page.evaluate(`${box}.scrollWidth - ${box}.clientWidth`)).toBe(0)
    await button('I have stored it').click()
    await page.getByText('available', { exact: true }).waitFor()
    expect(await query(connection, 'select 1 + 1')).toEqual([[2]])
    expect(await page.content()).not.toContain(connection)
  })

  it('links the database to an app, which both sides show', async () => {
    await page.goto(url(`/projects/${projectId}`))
    await page.getByRole('link', { name: 'storefront', exact: true }).click()
    await page.getByRole('link', { name: 'Variables', exact: true }).click()
    await button('Link a database').click()
    await dialog().getByRole('combobox').selectOption('orders')
    await dialog().getByRole('button', { name: 'Link' }).click()
    await page.getByText('1 change is not applied yet.').waitFor()
    await page.getByRole('listitem').getByRole('link', { name: 'orders' }).click()
    await page.getByRole('listitem').getByText('DATABASE_URL').waitFor()
    await page.getByRole('listitem').getByRole('link', { name: 'storefront' }).click()
    await button('Unlink').click()
    await dialog().getByRole('button', { name: 'Unlink' }).click()
    await page.getByText('1 change is not applied yet.').waitFor({ state: 'detached' })
  })

  it('uploads a file, downloads it and deletes it', async () => {
    await using directory = await temporaryDirectory()
    const path = join(directory.path, 'list.txt')
    await writeFile(path, 'one\ntwo\n')
    await page.goto(url(`/projects/${projectId}/storage`))
    await page.getByLabel('Drop files here, or choose them').setInputFiles(path)
    const link = page.getByRole('link', { name: 'list.txt' })
    await link.waitFor()
    const download = page.waitForEvent('download')
    await link.click()
    expect(await text(await (await download).createReadStream())).toBe('one\ntwo\n')
    await button('Actions for list.txt').click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await button('Delete file').click()
    await page.getByText('No file yet').waitFor()
  })

  it('creates a webhook endpoint, and a test message reaches it with a valid signature', async () => {
    const received: string[] = []
    let app = new Koa()
    await using server = await listening((request, response) => void app.callback()(request, response))
    await page.goto(url('/webhooks'))
    await button('New endpoint').click()
    await dialog().getByLabel('URL').fill(`${server.url}/hooks`)
    await dialog().getByRole('button', { name: 'Create endpoint' }).click()
    const secret = dialog().getByLabel('Signing secret', { exact: true }).last()
    await secret.waitFor()
    const receiver = createReceiver({ secrets: [(await secret.textContent())?.trim() ?? ''] })
    receiver.on('ping', ({ event }) => void received.push(event))
    app = new Koa()
    app.use(receiver.middleware({ path: '/hooks' }))
    await button('I have stored it').click()
    await page.getByRole('link', { name: `${server.url}/hooks` }).click()
    await button('Send a test').click()
    await page.getByRole('cell').getByText('succeeded').waitFor()
    expect(received).toEqual(['ping'])
    await page.getByRole('button', { name: 'ping' }).click()
    await dialog().getByText('Attempt 1: status 2').waitFor()
    await page.keyboard.press('Escape')
    await dialog().waitFor({ state: 'detached' })
  })

  it('revokes a key, which is refused from then on', async () => {
    await page.goto(url('/settings/api-keys'))
    await button('Actions for Pipeline').click()
    await page.getByRole('menuitem', { name: 'Revoke' }).click()
    await button('Revoke key').click()
    await page.getByText('revoked').waitFor()
    await expect(dashboard.server.clientFor(key).projects.list({})).rejects.toMatchObject({ code: 'unauthorized' })
  })

  it('had no page with errors or with requests to other origins', () => {
    expect(dashboard.pageErrors).toEqual([])
  })
})
