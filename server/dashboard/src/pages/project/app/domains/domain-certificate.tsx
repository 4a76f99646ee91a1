import { Link } from '@tanstack/react-router'
import type { Domain } from '../../../../data/domains/domains.ts'
import { Expiry } from '../../../../ui/display/expiry.tsx'
import { Status } from '../../../../ui/display/status.tsx'

/** The certificate of a domain: its expiry and, in case of a problem, its state. */
export function DomainCertificate({ certificate }: Pick<Domain, 'certificate'>) {
  if (certificate === null) return <span className="text-muted">none</span>
  const { status, expires_at } = certificate
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2 gap-y-1">
      {status !== 'valid' && (
        <Link to="/settings/certificates" className="hover:text-accent">
          <Status value={status} />
        </Link>
      )}
      {expires_at !== null && <Expiry at={expires_at} />}
    </span>
  )
}
