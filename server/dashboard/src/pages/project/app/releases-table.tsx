import { Link } from '@tanstack/react-router'
import type { AppRelease } from '../../../data/deployments.ts'
import { Button } from '../../../ui/controls/button.tsx'
import { Status } from '../../../ui/display/status.tsx'
import { type Column, Table } from '../../../ui/display/table.tsx'
import { Time } from '../../../ui/display/time.tsx'
import { Empty } from '../../../ui/page/states.tsx'
import { DeploymentDuration } from '../deployments/deployment-duration.tsx'
import { Trigger } from '../deployments/trigger.tsx'

interface ReleasesTableProps {
  readonly projectId: string
  readonly releases: readonly AppRelease[]
  readonly isFiltered: boolean
  readonly onRollBack: (release: AppRelease) => void
}

export function ReleasesTable({ projectId, releases, isFiltered, onRollBack }: ReleasesTableProps) {
  return (
    <Table
      label="Releases"
      rows={releases}
      keyOf={({ id }) => id}
      columns={[
        { title: 'Release', cell: (release) => <Commit projectId={projectId} release={release} /> },
        { title: 'Status', cell: ({ status }) => <Status value={status} /> },
        { title: 'Branch', wideOnly: true, cell: ({ branch }) => branch ?? '–' },
        ...details,
        { title: 'Action', align: 'right', cell: (release) => <RollBack release={release} onRollBack={onRollBack} /> },
      ]}
      empty={<Empty title={isFiltered ? 'No release matches' : 'No release yet'} />}
    />
  )
}

const details: readonly Column<AppRelease>[] = [
  {
    title: 'Trigger',
    wideOnly: true,
    cell: ({ trigger }) => <Trigger trigger={trigger} />,
  },
  { title: 'Duration', wideOnly: true, cell: (release) => <DeploymentDuration deployment={release} /> },
  { title: 'Created', wideOnly: true, align: 'right', cell: ({ created_at }) => <Time at={created_at} /> },
]

/** The first line of the commit's message, the image, or else the deployment's id links to the deployment. */
function Commit({
  projectId,
  release: { id, commit, image },
}: {
  readonly projectId: string
  readonly release: AppRelease
}) {
  return (
    <span className="grid min-w-0 gap-0.5">
      <Link
        to="/projects/$projectId/deployments/$deploymentId"
        params={{ projectId, deploymentId: id }}
        className="wrap-anywhere line-clamp-2 font-medium hover:text-accent"
      >
        {commit?.message?.split('\n')[0] || commit?.hash.slice(0, 12) || image?.reference || id}
      </Link>
      {image?.digest != null && <code className="text-[12px] text-muted">{image.digest.slice(0, 19)}</code>}
      {commit !== null && (
        <span className="text-[12px] text-muted">
          <code>{commit.hash.slice(0, 7)}</code>
          {commit.author !== null && <> by {commit.author}</>}
        </span>
      )}
    </span>
  )
}

/** A rollback is offered when the server would accept it: for a kept release that does not run. */
function RollBack({ release, onRollBack }: Pick<ReleasesTableProps, 'onRollBack'> & { readonly release: AppRelease }) {
  if (!release.kept || release.status === 'running' || release.status === 'building') return null
  return (
    <Button size="small" onClick={() => onRollBack(release)}>
      Roll back
    </Button>
  )
}
