import type { ResponseBody } from '@fairlead/server/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import { certificateProblemsQuery } from '../../../data/domains/certificates.ts'
import { buttonClass } from '../../../ui/controls/button.tsx'
import { Expiry } from '../../../ui/display/expiry.tsx'
import { Panel } from '../../../ui/page/page.tsx'

type Problem = ResponseBody<'certificates.problems'>['problems'][number]

/** The reasons are long, and the page has more to show. */
const mostShown = 5

/** The certificates of a project that need attention, with the reason. Empty without problems. */
export function CertificateProblems({ projectId }: { readonly projectId: string }) {
  const problems = useQuery(certificateProblemsQuery(projectId)).data?.problems ?? []
  if (problems.length === 0) return null
  return (
    <Panel
      title="Certificates in danger"
      actions={
        <Link to="/settings/certificates" className={buttonClass({ size: 'small' })}>
          All certificates
        </Link>
      }
    >
      <ul className="grid gap-3">
        {problems.slice(0, mostShown).map((problem) => (
          <li key={problem.id} className="flex items-start gap-2">
            <TriangleAlert size={16} className="mt-0.5 shrink-0 text-warn" aria-hidden="true" />
            <div className="wrap-anywhere min-w-0">
              <p className="flex flex-wrap gap-x-3">
                <Names projectId={projectId} problem={problem} />
                {problem.expires_at !== null && <Expiry at={problem.expires_at} />}
              </p>
              {problem.failure !== null && <p className="text-muted">{problem.failure.message}</p>}
            </div>
          </li>
        ))}
      </ul>
      {problems.length > mostShown && (
        <p className="mt-3 text-muted">and {problems.length - mostShown} more, which “All certificates” has</p>
      )}
    </Panel>
  )
}

function Names({
  projectId,
  problem: { names, app_id: appId },
}: {
  readonly projectId: string
  readonly problem: Problem
}) {
  const text = <span className="font-medium">{names.join(', ')}</span>
  if (appId === null) return text
  return (
    <Link to="/projects/$projectId/apps/$appId/domains" params={{ projectId, appId }} className="hover:text-accent">
      {text}
    </Link>
  )
}
