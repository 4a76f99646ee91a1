import { describe, expect, it } from 'vitest'
import { chromiumPath, noChromium, signInOn } from '../../harness/chromium.ts'
import { chromiumOfRun } from '../../harness/dashboard/of-run.ts'
import { openPage } from '../../harness/dashboard/pages.ts'
import { serverWithImages } from '../../harness/image-server.ts'
import { digestOf } from '../../harness/runtimes/example-images.ts'

if (chromiumPath === undefined) noChromium('the images of an app')

const image = 'registry.example/team/shop:1'

describe.skipIf(chromiumPath === undefined)('the dashboard', { timeout: 120_000 }, () => {
  it('deploys an image, shows its reference and digest, and keeps credentials for its registry', async () => {
    await using cleanup = new AsyncDisposableStack()
    const given = cleanup.use(await serverWithImages())
    given.registry.commands.set(digestOf('1'), ['node', 'app.js', 'listens'])
    given.registry.tags.set(image, digestOf('1'))
    const chromium = await chromiumOfRun()
    cleanup.defer(() => chromium.close())
    const page = await (await chromium.newContext({ reducedMotion: 'reduce' })).newPage()
    page.setDefaultTimeout(60_000)
    const user = await given.server.signIn()
    await page.goto(`${given.server.url}/sign-in`)
    await signInOn(page, user)

    const project = `${given.server.url}/projects/${given.projectId}`
    await openPage(page, `${project}/deployments`)
    await page.getByRole('button', { name: 'Deploy' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('App').fill('shop')
    await dialog.getByLabel('From').selectOption('image')
    await dialog.getByLabel('Git repository').waitFor({ state: 'detached' })
    await dialog.getByLabel('Image', { exact: true }).fill('Registry.example/Shop')
    await dialog.getByRole('button', { name: 'Deploy' }).click()
    await dialog.getByText('must be in lower case').waitFor()
    await dialog.getByLabel('Image', { exact: true }).fill(image)
    await dialog.getByRole('button', { name: 'Add a volume' }).click()
    await dialog.getByLabel('Name of volume 1').fill('uploads')
    await dialog.getByLabel('Path of volume 1').fill('/etc/uploads')
    await dialog.getByRole('button', { name: 'Deploy' }).click()
    await dialog.getByText('must not be in /etc').waitFor()
    await dialog.getByLabel('Path of volume 1').fill('/srv/uploads')
    await dialog.getByRole('button', { name: 'Add a volume' }).click()
    await dialog.getByLabel('Name of volume 2').fill('uploads')
    await dialog.getByLabel('Path of volume 2').fill('/srv/others')
    await dialog.getByRole('button', { name: 'Deploy' }).click()
    await dialog.getByText('Several volumes have the name uploads. Give each its own.').waitFor()
    await dialog.getByRole('button', { name: 'Remove volume 2' }).click()
    const sent = page.waitForRequest((request) => request.method() === 'POST' && /\/deployments$/.test(request.url()))
    await dialog.getByRole('button', { name: 'Deploy' }).click()
    expect((await sent).postDataJSON()).toMatchObject({ image, volumes: { uploads: '/srv/uploads' } })
    await page.getByText(digestOf('1'), { exact: true }).waitFor()
    await page.getByText(image, { exact: true }).waitFor()
    await page.getByText('running').first().waitFor()

    const { id } = await given.appNamed('shop')
    await openPage(page, `${project}/apps/${id}`)
    await page.getByRole('link', { name: image }).waitFor()

    await openPage(page, `${project}/settings`)
    await page.getByRole('button', { name: 'Add credentials' }).click()
    await dialog.getByLabel('Registry').fill('registry.example')
    await dialog.getByLabel('User name').fill('deploy')
    await dialog.getByLabel('Password').fill('very-secret')
    await dialog.getByRole('button', { name: 'Store credentials' }).click()
    await page.getByRole('button', { name: 'Remove registry.example' }).click()
    expect(await page.content()).not.toContain('very-secret')
    await dialog.getByRole('button', { name: 'Remove' }).click()
    await page.getByText('No credentials', { exact: true }).waitFor()
  })
})
