import { describe, expect, it } from 'vitest'
import { compareLink } from '../../../server/dashboard/src/data/compare-link.ts'
import { shownSteps } from '../../../server/dashboard/src/data/deployment-steps.ts'
import { outcomesByDay, type Step } from '../../../server/dashboard/src/data/deployments.ts'
import { repositoryName } from '../../../server/dashboard/src/data/repository-name.ts'
import { browserName } from '../../../server/dashboard/src/data/user-agent.ts'
import { variablesOf, withPasted } from '../../../server/dashboard/src/data/variable-rows.ts'

describe('the link to the changes between two commits', () => {
  const [from, to] = ['a'.repeat(40), 'b'.repeat(40)]

  it.each([
    ['https://github.com/acme/shop.git', `https://github.com/acme/shop/compare/${from}...${to}`],
    ['https://codeberg.org/acme/shop/', `https://codeberg.org/acme/shop/compare/${from}...${to}`],
    ['https://gitlab.com/acme/team/shop.git', `https://gitlab.com/acme/team/shop/-/compare/${from}...${to}`],
    ['https://gitlab.example.com/team/shop.git', `https://gitlab.example.com/team/shop/-/compare/${from}...${to}`],
    ['https://forgejo.example.com/team/shop', `https://forgejo.example.com/team/shop/compare/${from}...${to}`],
  ])('leads to the host of %s', (gitUrl, link) => expect(compareLink(gitUrl, from, to)).toBe(link))

  it.each([
    'https://git.example.com/acme/shop.git',
    'https://github.com.example.com/acme/shop',
    'http://github.com/acme/shop',
    'git@github.com:acme/shop.git',
    'javascript://github.com/%0aalert(1)',
    null,
  ])('does not exist for %s', (gitUrl) => expect(compareLink(gitUrl, from, to)).toBeNull())

  it('does not exist for text that is no commit', () =>
    expect(compareLink('https://github.com/a/b', 'main', to)).toBeNull())
})

describe('the steps of a deployment', () => {
  const at = '2026-11-21T05:32:03.120Z'
  const begun = (...names: readonly Step['name'][]): Step[] =>
    names.map((name, index) => ({ name, started_at: at, finished_at: index < names.length - 1 ? at : null }))
  const shown = (deployment: Partial<Parameters<typeof shownSteps>[0]>) =>
    shownSteps({
      status: 'building',
      steps: [],
      failure: null,
      kept: false,
      from_deployment_id: null,
      image: null,
      ...deployment,
    }).map(({ name, state }) => `${name} ${state}`)

  it('are the steps so far, and during a build also the next steps', () => {
    expect(shown({ steps: begun('queued', 'fetch', 'plan', 'queued') })).toEqual([
      ...['queued done', 'fetch done', 'plan done', 'queued active'],
      ...['build pending', 'start pending', 'check pending', 'switch pending'],
    ])
    expect(shown({ steps: begun('queued'), kept: true })).toEqual([
      ...['queued active', 'start pending', 'check pending', 'switch pending'],
    ])
  })

  it('show a copy in place of the fetch for the release of another deployment', () => {
    const promoted = shown({ steps: begun('queued'), from_deployment_id: 'dep_1' })
    expect(promoted.slice(0, 3)).toEqual(['queued active', 'copy pending', 'build pending'])
  })

  it('are fewer for an image, which is neither planned nor built', () => {
    const image = { reference: 'registry.example/shop:1', digest: null }
    const pulled = shown({ steps: begun('queued'), image })
    expect(pulled).toEqual(['queued active', 'fetch pending', 'start pending', 'check pending', 'switch pending'])
    const promoted = shown({ steps: begun('queued'), image, from_deployment_id: 'dep_1' })
    expect(promoted.slice(1, 3)).toEqual(['copy pending', 'start pending'])
  })

  it('end with the failed step, unless the app failed later', () => {
    const failure = { stage: 'start' as const, code: 'c', message: 'm', suggestions: [] }
    const steps = begun('queued', 'start', 'check')
    expect(shown({ status: 'failed', steps, failure }).at(-1)).toBe('check failed')
    expect(shown({ status: 'canceled', steps }).at(-1)).toBe('check ended')
    const crashed = { ...failure, stage: 'run' as const }
    const all = [...steps, ...begun('switch')]
    expect(shown({ status: 'failed', steps: all, failure: crashed }).at(-1)).toBe('switch done')
  })
})

describe('the variables of a form', () => {
  it('come from its rows with a name, and pasted variables replace equal names', () => {
    const rows = [
      { name: 'TYPED', value: 'new' },
      { name: 'PASTED', value: 'old' },
      { name: ' ADDED ', value: '' },
      { name: '', value: 'lost' },
    ]
    expect(variablesOf(rows)).toEqual({ TYPED: 'new', PASTED: 'old', ADDED: '' })
    expect(variablesOf(withPasted(rows, { PASTED: '', FRESH: '1' }))).toEqual({
      TYPED: 'new',
      PASTED: '',
      ADDED: '',
      FRESH: '1',
    })
  })
})

describe('the name of a repository', () => {
  it.each([
    ['acme/shop'],
    ['https://github.com/acme/shop'],
    ['https://github.com/acme/shop.git'],
    [' https://github.com/acme/shop/?tab=readme#top '],
    ['git@github.com:acme/shop.git'],
    ['ssh://git@github.com/acme/shop.git'],
    ['github.com/acme/shop'],
  ])('is read from %s', (address) => {
    expect(repositoryName(address)).toBe('acme/shop')
  })
})

describe('the outcomes of deployments', () => {
  it('are added up by the days of the browser, which may have 23 or 25 hours', () => {
    const now = new Date(2026, 10, 3, 12)
    const quarter = (at: Date) => ({ at: at.toISOString(), succeeded: 1, failed: 2, other: 3 })
    const days = outcomesByDay(
      [new Date(2026, 9, 20), new Date(2026, 9, 21), new Date(2026, 9, 21, 23, 45), new Date(2026, 10, 3, 11, 45)].map(
        quarter,
      ),
      14,
      now,
    )
    expect(days).toHaveLength(14)
    expect(days[0]).toEqual({ label: 'Oct 21', succeeded: 2, failed: 4, other: 6 })
    expect(days[13]).toEqual({ label: 'Nov 3', succeeded: 1, failed: 2, other: 3 })
    expect(days.reduce((sum, { succeeded }) => sum + succeeded, 0)).toBe(3)
  })
})

describe('a browser', () => {
  const webkit = 'AppleWebKit/537.36 (KHTML, like Gecko)'
  const apple = 'AppleWebKit/605.1.15 (KHTML, like Gecko)'
  it.each([
    ['Firefox on Linux', 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'],
    ['Firefox on Android', 'Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0'],
    [
      'Firefox on iPhone',
      `Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) ${apple} FxiOS/140.0 Mobile/15E148 Safari/605.1.15`,
    ],
    ['Chrome on Windows', `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/141.0.0.0 Safari/537.36`],
    ['Chrome on macOS', `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Chrome/141.0.0.0 Safari/537.36`],
    ['Chrome on Android', `Mozilla/5.0 (Linux; Android 10; K) ${webkit} Chrome/141.0.0.0 Mobile Safari/537.36`],
    [
      'Chrome on iPad',
      `Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) ${apple} CriOS/141.0.0.0 Mobile/15E148 Safari/604.1`,
    ],
    ['Chrome on ChromeOS', `Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${webkit} Chrome/141.0.0.0 Safari/537.36`],
    ['Chrome on Linux', `Mozilla/5.0 (X11; Linux x86_64) ${webkit} HeadlessChrome/141.0.0.0 Safari/537.36`],
    [
      'Edge on Windows',
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0`,
    ],
    ['Opera on Linux', `Mozilla/5.0 (X11; Linux x86_64) ${webkit} Chrome/141.0.0.0 Safari/537.36 OPR/122.0.0.0`],
    [
      'Samsung Internet on Android',
      `Mozilla/5.0 (Linux; Android 10; K) ${webkit} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36`,
    ],
    ['Safari on macOS', `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${apple} Version/18.5 Safari/605.1.15`],
    [
      'Safari on iPhone',
      `Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) ${apple} Version/18.5 Mobile/15E148 Safari/604.1`,
    ],
    ['Unknown on Linux', 'Mozilla/5.0 (X11; Linux x86_64)'],
    ['curl', 'curl/8.14.1'],
    ['node', 'node'],
    ['Unknown', '<script>'],
    ['Unknown', ''],
    ['Unknown', null],
  ])('is called %s', (name, userAgent) => {
    expect(browserName(userAgent)).toBe(name)
  })
})
