import { summary, warning } from '@actions/core'
import type { Deployment } from '../api/outcome.ts'
import type { Report } from './report.ts'
import type { Step } from './steps.ts'

export interface SummaryFacts {
  readonly name: string
  /** Empty when not known. */
  readonly branch: string
  /** The commit that was or should have been deployed; empty when unknown. */
  readonly commit: string
  readonly deployment: Deployment | undefined
  /** The address of the deployment in the dashboard. */
  readonly link: string | undefined
  readonly steps: readonly Step[]
}

/** Returns the job summary in Markdown. Untrusted text is escaped. */
export function summaryOf(report: Report, facts: SummaryFacts): string {
  const heading = report.ok ? (report.status === 'running' ? 'Deployed' : 'Deploying') : 'Not deployed:'
  const { deployment, link } = facts
  const rows = [
    ['Status', escapeLine(report.status)],
    ['Address', linkTo(deployment?.url, deployment?.url)],
    ['Branch', escapeLine(facts.branch)],
    ['Commit', escapeLine(facts.commit)],
    ['Deployment', linkTo(link, deployment?.id)],
  ].filter(([, value]) => value !== '')
  summary
    .emptyBuffer()
    .addHeading(`${heading} ${escapeLine(facts.name)}`, 3)
    .addTable(rows.map(([title = '', data = '']) => [{ data: title, header: true }, { data }]))
    .addTable([
      ['Step', 'Time'].map((data) => ({ data, header: true })),
      ...facts.steps.map(({ title, took }) => [escapeLine(title), took]),
    ])
  // Markdown begins again after an empty line.
  const messages = report.status === 'running' ? [] : report.messages
  for (const message of messages) summary.addRaw(`\n${escapeLine(message)}\n`)
  if (report.output !== undefined) summary.addRaw('\n').addCodeBlock(escapeHtml(report.output.join('\n')))
  const text = summary.stringify()
  summary.emptyBuffer()
  return text
}

/** Returns the job summary of a run without a deployment. Untrusted text is escaped. */
export function shortSummary(heading: string, messages: readonly string[]): string {
  summary.emptyBuffer().addHeading(escapeLine(heading), 3)
  for (const message of messages) summary.addRaw(`\n${escapeLine(message)}\n`)
  const text = summary.stringify()
  summary.emptyBuffer()
  return text
}

/** Writes the job summary if the runner supports it. A failure to write it is only a warning. */
export async function writeSummary(markdown: string, path: string | undefined): Promise<void> {
  if (!path) return
  try {
    await summary.addRaw(markdown, true).write()
  } catch (error) {
    warning(`The job summary could not be written: ${String(error)}`, { title: 'Fairlead' })
  }
}

function linkTo(address: string | undefined, text: string | undefined): string {
  if (!address || !text) return ''
  // Other schemes could run code.
  return /^https?:/i.test(address) ? `<a href="${escapeLine(address)}">${escapeLine(text)}</a>` : escapeLine(text)
}

/** Escapes text for one line of HTML or Markdown. Underscores and dots are kept, so that addresses remain links. */
function escapeLine(text: string): string {
  const line = escapeHtml(text.replace(/\p{Cc}+/gu, ' '))
  return line.replace(/[\\|*[\]~#`@]/g, (character) => `&#${character.charCodeAt(0)};`)
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
