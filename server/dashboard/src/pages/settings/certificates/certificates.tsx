import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Upload } from 'lucide-react'
import { useState } from 'react'
import { type Certificate, certificatesQuery } from '../../../data/domains/certificates.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Dialog } from '../../../ui/dialogs/dialog.tsx'
import { useLinkedDialog } from '../../../ui/dialogs/use-linked-dialog.ts'
import { Expiry } from '../../../ui/display/expiry.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { PagedView } from '../../../ui/page/paged-view.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { type Action, CertificateAction, CertificateMenu } from './certificate-actions.tsx'
import { UploadCertificate } from './upload-certificate.tsx'

/** The certificates of the account's apps, and its uploaded certificates. */
export function Certificates() {
  const query = useInfiniteQuery(certificatesQuery)
  const [isUploading, setUploading] = useLinkedDialog()
  const [asked, setAsked] = useState<{ readonly action: Action; readonly certificate: Certificate }>()
  return (
    <>
      <Panel
        title="Certificates"
        flush
        actions={
          <Button icon={<Upload size={16} />} onClick={() => setUploading(true)}>
            Upload
          </Button>
        }
      >
        <PagedView query={query} label="certificates">
          {(pages) => (
            <Table
              label="Certificates"
              rows={pages.flatMap(({ certificates }) => certificates)}
              keyOf={({ id }) => id}
              columns={[...columns, actionColumn((action, certificate) => setAsked({ action, certificate }))]}
              empty={
                <Empty title="No certificates">
                  <p>
                    The server obtains a certificate when an app gets its first visitor by HTTPS, and for each domain of
                    an app, and renews it by itself. Your own ones are uploaded here.
                  </p>
                </Empty>
              }
            />
          )}
        </PagedView>
      </Panel>
      <Dialog
        open={isUploading}
        onClose={() => setUploading(false)}
        title="Upload a certificate"
        description="The server uses it for all of your domains that it covers, in place of an automatic certificate."
      >
        <UploadCertificate onDone={() => setUploading(false)} />
      </Dialog>
      {asked !== undefined && <CertificateAction {...asked} onClose={() => setAsked(undefined)} />}
    </>
  )
}

const columns: readonly Column<Certificate>[] = [
  { title: 'Names', cell: (certificate) => <Names certificate={certificate} /> },
  {
    title: 'Issuer',
    wideOnly: true,
    cell: ({ issuer, source }) => (
      <>
        <span className="line-clamp-2 max-w-32" title={issuer ?? undefined}>
          {issuer ?? '–'}
        </span>
        {source === 'uploaded' && <p className="text-[13px] text-muted">uploaded</p>}
      </>
    ),
  },
  {
    title: 'Status',
    cell: ({ status, expires_at }) => (
      <>
        <Status value={status} />
        {expires_at !== null && (
          <p className="mt-1 text-[12px] md:hidden">
            <Expiry at={expires_at} />
          </p>
        )}
      </>
    ),
  },
  {
    title: 'Valid until',
    wideOnly: true,
    cell: ({ expires_at }) => (expires_at === null ? '–' : <Expiry at={expires_at} />),
  },
  {
    title: 'Last attempt',
    wideOnly: true,
    cell: ({ attempted_at, failure }) =>
      attempted_at === null ? (
        '–'
      ) : (
        <>
          <Time at={attempted_at} />
          {failure !== null && <p className="text-[13px] text-muted">failed</p>}
        </>
      ),
  },
  {
    title: 'Next attempt',
    wideOnly: true,
    cell: ({ next_attempt_at }) => (next_attempt_at === null ? '–' : <Time at={next_attempt_at} />),
  },
]

const actionColumn = (onAction: (action: Action, certificate: Certificate) => void): Column<Certificate> => ({
  title: 'Action',
  align: 'right',
  cell: (certificate) => (
    <CertificateMenu certificate={certificate} onAction={(action) => onAction(action, certificate)} />
  ),
})

/** An uploaded certificate may have a hundred names. */
const namesAtOnce = 5

function Names({ certificate }: { readonly certificate: Certificate }) {
  const { names, project_id: projectId, app_id: appId, failure, status, revocation_requested_at } = certificate
  const others = names.length - namesAtOnce
  const list = (
    <span className="wrap-anywhere font-medium" title={others > 0 ? names.join(', ') : undefined}>
      {names.slice(0, namesAtOnce).join(', ')}
      {others > 0 && ` and ${others} more`}
    </span>
  )
  return (
    <div className="min-w-32 md:min-w-52">
      {projectId !== null && appId !== null ? (
        <Link to="/projects/$projectId/apps/$appId/domains" params={{ projectId, appId }} className="hover:text-accent">
          {list}
        </Link>
      ) : (
        list
      )}
      {failure !== null && <p className="wrap-anywhere max-w-prose text-[13px] text-muted">{failure.message}</p>}
      {revocation_requested_at !== null && status !== 'revoked' && (
        <p className="text-[13px] text-muted">To be revoked when another certificate has replaced it.</p>
      )}
    </div>
  )
}
