import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { ExternalLink } from 'lucide-react'
import { api } from '../../../data/client.ts'
import { compareLink } from '../../../data/compare-link.ts'
import type { Release } from '../../../data/deployments.ts'
import { appQuery } from '../../../data/queries.ts'
import { ConfirmDialog } from '../../../ui/dialogs/confirm-dialog.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { QueryView } from '../../../ui/page/query-view.tsx'

export type RollbackTarget = Pick<Release, 'id' | 'git_url' | 'image' | 'commit' | 'created_at'>

interface RollbackDialogProps {
  readonly projectId: string
  readonly appId: string
  readonly target: RollbackTarget
  readonly onClose: () => void
}

/** Asks before a rollback, with the current and the future release side by side. */
export function RollbackDialog({ projectId, appId, target, onClose }: RollbackDialogProps) {
  const app = useQuery(appQuery(projectId, appId))
  const queryClient = useQueryClient()
  const rollBack = useMutation({
    mutationFn: () => api.deployments.rollback({ params: { project_id: projectId, id: target.id } }),
    onSuccess: onClose,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ['projects', projectId] }),
  })
  return (
    <ConfirmDialog open onClose={onClose} title="Roll back" action="Roll back" mutation={rollBack}>
      <p>Starts the earlier release again, with its files and variables, and without a build.</p>
      <QueryView query={app} label="the current release">
        {({ serving }) => (
          <>
            <div className="grid gap-3 sm:grid-cols-2">
              <Side title="Now" release={serving} />
              <Side title="After the rollback" release={target} />
            </div>
            <CompareLink current={serving} target={target} />
          </>
        )}
      </QueryView>
    </ConfirmDialog>
  )
}

function Side({ title, release }: { readonly title: string; readonly release: RollbackTarget | null }) {
  return (
    <section aria-label={title} className="grid min-w-0 content-start gap-1 rounded-md border border-line p-3">
      <h3 className="font-medium text-muted">{title}</h3>
      {release === null ? <p>No release serves the app.</p> : <CommitLines release={release} />}
    </section>
  )
}

function CommitLines({ release: { image, commit, created_at } }: { readonly release: RollbackTarget }) {
  return (
    <>
      {image !== null && (
        <>
          <p className="wrap-anywhere">{image.reference}</p>
          <code className="wrap-anywhere text-[12px]">{image.digest}</code>
        </>
      )}
      {commit !== null && (
        <>
          <p className="wrap-anywhere">
            <code>{commit.hash.slice(0, 12)}</code> {commit.message?.split('\n')[0]}
          </p>
          {commit.author !== null && <p className="text-muted">by {commit.author}</p>}
        </>
      )}
      <p className="text-muted">
        created <Time at={created_at} />
      </p>
    </>
  )
}

function CompareLink({
  current,
  target,
}: {
  readonly current: RollbackTarget | null
  readonly target: RollbackTarget
}) {
  const isSame = current !== null && current.commit !== null && current.commit.hash === target.commit?.hash
  if (isSame) return <p>Both are of the same commit.</p>
  if (current?.commit == null || target.commit === null || current.git_url !== target.git_url) return null
  const link = compareLink(target.git_url, target.commit.hash, current.commit.hash)
  if (link === null) return null
  return (
    <a
      href={link}
      target="_blank"
      rel="noreferrer"
      className="inline-flex items-center gap-1 text-accent hover:underline"
    >
      Changes that are taken back
      <ExternalLink size={12} aria-hidden="true" />
    </a>
  )
}
