import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** The full file, with texts for people, takes a page twice as long to load. */
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export const phone = { width: 390, height: 844 } as const

/** Each theme with its background and the rules to check. The themes differ only in their colours. */
const themes = [
  { colorScheme: 'light', canvas: 'rgb(246, 247, 248)', rules: undefined },
  { colorScheme: 'dark', canvas: 'rgb(14, 19, 22)', rules: ['color-contrast'] },
] as const

/** The number of pixels by which the content of an open dialog overflows it. */
const dialogOverflow =
  "[...document.querySelectorAll('[role=dialog]')].reduce((max, box) => Math.max(max, box.scrollWidth - box.clientWidth), 0)"

/** The number of fields with text below 16 pixels. Phones zoom into them on focus. */
const smallFields =
  "[...document.querySelectorAll('input, select, textarea')].filter((field) => parseFloat(getComputedStyle(field).fontSize) < 16).length"

export interface Violation {
  readonly id: string
  readonly impact: AxeResults['violations'][number]['impact']
  readonly targets: readonly string[]
}

/** Returns axe's results for these rules, by default for all. */
export async function violationsOf(page: Page, rules?: readonly string[]): Promise<Violation[]> {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe)
  // Reporting passes as well would double axe's time.
  const options = { resultTypes: ['violations'], ...(rules !== undefined && { runOnly: rules }) }
  return page.evaluate<Violation[]>(`axe.run(document, ${JSON.stringify(options)}).then(({ violations }) =>
  violations.map(({ id, impact, nodes }) => ({ id, impact, targets: nodes.map(({ target }) => target.join(' ')) })))`)
}

/** Returns the violations that axe rates serious or critical, and content outside of landmarks, as `rule: element`. */
export async function seriousViolations(page: Page, rules?: readonly string[]): Promise<string[]> {
  return (await violationsOf(page, rules))
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || id === 'region')
    .flatMap(({ id, targets }) => targets.map((target) => `${id}: ${target}`))
}

/** Returns the faults of an open page in both themes: violations, and overflowing content. */
export async function problemsOfPage(page: Page): Promise<string[]> {
  await page.emulateMedia({ colorScheme: 'light' })
  const found = await problemsOfScreen(page)
  for (const { colorScheme, canvas, rules } of themes) {
    await page.emulateMedia({ colorScheme })
    // The colours change with the next frame, and some of them gradually.
    const colour = () => page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor')
    await expect.poll(colour).toBe(canvas)
    await page.evaluate('Promise.all(document.getAnimations().map((each) => each.finished.catch(() => undefined)))')
    found.push(...(await seriousViolations(page, rules)).map((violation) => `${colorScheme}: ${violation}`))
  }
  return found
}

/**
 * Returns the faults of an open page on a desktop and then on a phone; the page keeps the phone's size. On the phone,
 * the page is dark: only its layout depends on the size, and its colours do not.
 */
export async function problemsOnDeskAndPhone(page: Page): Promise<string[]> {
  const onDesk = await problemsOfPage(page)
  await page.setViewportSize(phone)
  const onPhone = [...(await problemsOfScreen(page)), ...(await seriousViolations(page))]
  return [...onDesk, ...onPhone.map((problem) => `phone: ${problem}`)]
}

async function problemsOfScreen(page: Page): Promise<string[]> {
  const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
  const wide = overflow > 0 ? [`${overflow} pixels wider than the screen`] : []
  return [...wide, ...(await smallFieldsOf(page))]
}

async function smallFieldsOf(page: Page): Promise<string[]> {
  const isPhone = (page.viewportSize()?.width ?? 0) < 768
  const small = isPhone ? await page.evaluate<number>(smallFields) : 0
  return small > 0 ? [`${small} fields that phones zoom into`] : []
}

/** Returns the faults of an open dialog. */
export async function problemsOfDialog(page: Page): Promise<string[]> {
  const overflow = await page.evaluate<number>(dialogOverflow)
  const wide = overflow > 0 ? [`${overflow} pixels wider than the dialog`] : []
  return [...(await seriousViolations(page)), ...wide, ...(await smallFieldsOf(page))]
}
