import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { type AppRelease, statuses } from '../../../data/deployments.ts'
import { appReleasesQuery, type ReleaseFilter } from '../../../data/queries.ts'
import { inputClass } from '../../../ui/forms/field.tsx'
import { Panel } from '../../../ui/page/page.tsx'
import { PagedView } from '../../../ui/page/paged-view.tsx'
import { RollbackDialog } from '../deployments/rollback-dialog.tsx'
import { ReleasesTable } from './releases-table.tsx'

/** The releases of an app, with filters by state, branch and text. */
export function Releases() {
  const { projectId, appId } = useParams({ from: '/layout/projects/$projectId/apps/$appId' })
  const [filter, setFilter] = useState<ReleaseFilter>({})
  const [target, setTarget] = useState<AppRelease>()
  const releases = useInfiniteQuery({
    ...appReleasesQuery(projectId, appId, filter),
    placeholderData: keepPreviousData,
  })
  const isFiltered = Object.values(filter).some((value) => value !== undefined && value !== '')
  return (
    <>
      <Panel title="Releases" flush actions={<Filters value={filter} onChange={setFilter} />}>
        <PagedView query={releases} label="releases">
          {(pages) => (
            <ReleasesTable
              projectId={projectId}
              releases={pages.flatMap((page) => page.releases)}
              isFiltered={isFiltered}
              onRollBack={setTarget}
            />
          )}
        </PagedView>
      </Panel>
      {target !== undefined && (
        <RollbackDialog projectId={projectId} appId={appId} target={target} onClose={() => setTarget(undefined)} />
      )}
    </>
  )
}

interface FiltersProps {
  readonly value: ReleaseFilter
  readonly onChange: (filter: ReleaseFilter) => void
}

function Filters({ value, onChange }: FiltersProps) {
  const small = `${inputClass} !h-7`
  return (
    <div className="flex flex-wrap gap-2">
      <input
        type="search"
        aria-label="Search releases"
        placeholder="Search"
        maxLength={100}
        className={`${small} !w-44`}
        value={value.search ?? ''}
        onChange={({ target }) => onChange({ ...value, search: target.value })}
      />
      <input
        aria-label="Filter by branch"
        placeholder="Branch"
        maxLength={255}
        className={`${small} !w-32`}
        value={value.branch ?? ''}
        onChange={({ target }) => onChange({ ...value, branch: target.value })}
      />
      <select
        aria-label="Filter by status"
        className={`${small} !w-auto`}
        value={value.status ?? ''}
        onChange={({ target }) => onChange({ ...value, status: statuses.find((each) => each === target.value) })}
      >
        <option value="">all states</option>
        {statuses.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </div>
  )
}
