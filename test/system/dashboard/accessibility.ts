import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** Each theme with its background and the rules to check. The themes differ in their colours only. */
const themes = [
  { colorScheme: 'light', canvas: 'rgb(246, 247, 248)', rules: 'undefined' },
  { colorScheme: 'dark', canvas: 'rgb(14, 19, 22)', rules: "{ runOnly: ['color-contrast'] }" },
] as const

/** The number of pixels by which the content of an open dialog is wider than the dialog. */
const dialogOverflow =
  "[...document.querySelectorAll('[role=dialog]')].reduce((max, box) => Math.max(max, box.scrollWidth - box.clientWidth), 0)"

/** The number of fields with text below 16 pixels, which phones zoom into when they get the focus. */
const smallFields =
  "[...document.querySelectorAll('input, select, textarea')].filter((field) => parseFloat(getComputedStyle(field).fontSize) < 16).length"

/** Returns the violations that axe rates serious or critical, and content outside of landmarks, as `rule: element`. */
export async function seriousViolations(page: Page, options = 'undefined'): Promise<string[]> {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe.source)
  const { violations } = await page.evaluate<axe.AxeResults>(`axe.run(document, ${options} ?? {})`)
  return violations
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || id === 'region')
    .flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`))
}

/** Returns what is wrong with an open page in both themes: violations, and content that the screen does not hold. */
export async function problemsOfPage(page: Page): Promise<string[]> {
  const found: string[] = []
  await page.emulateMedia({ colorScheme: 'light' })
  const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
  if (overflow > 0) found.push(`${overflow} pixels wider than the screen`)
  found.push(...(await smallFieldsOf(page)))
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

async function smallFieldsOf(page: Page): Promise<string[]> {
  const isPhone = (page.viewportSize()?.width ?? 0) < 768
  const small = isPhone ? await page.evaluate<number>(smallFields) : 0
  return small > 0 ? [`${small} fields that phones zoom into`] : []
}

/** Returns what is wrong with an open dialog. */
export async function problemsOfDialog(page: Page): Promise<string[]> {
  const overflow = await page.evaluate<number>(dialogOverflow)
  const wide = overflow > 0 ? [`${overflow} pixels wider than the dialog`] : []
  return [...(await seriousViolations(page)), ...wide, ...(await smallFieldsOf(page))]
}
