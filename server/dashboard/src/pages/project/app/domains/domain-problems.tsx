import { CircleAlert, CircleCheck, TriangleAlert } from 'lucide-react'
import type { Domain } from '../../../../data/domains/domains.ts'

const looks = {
  error: { word: 'Error', icon: CircleAlert, tone: 'text-bad' },
  warning: { word: 'Warning', icon: TriangleAlert, tone: 'text-warn' },
} as const

/** The problems of a domain in words, with what to do. */
export function DomainProblems({ domain: { problems, checked_at } }: { readonly domain: Domain }) {
  if (problems.length === 0) {
    return checked_at === null ? null : (
      <p className="flex items-center gap-2">
        <CircleCheck size={16} className="shrink-0 text-good" aria-hidden="true" />
        The DNS records are right.
      </p>
    )
  }
  return (
    <ul aria-label="Problems" className="grid gap-3">
      {problems.map(({ code, message, severity }) => {
        const { word, icon: Icon, tone } = looks[severity]
        return (
          <li key={`${code} ${message}`} className="flex items-start gap-2">
            <Icon size={16} className={`mt-0.5 shrink-0 ${tone}`} aria-hidden="true" />
            <p className="wrap-anywhere min-w-0">
              <span className={`font-medium ${tone}`}>{word}:</span> {message}
            </p>
          </li>
        )
      })}
    </ul>
  )
}
