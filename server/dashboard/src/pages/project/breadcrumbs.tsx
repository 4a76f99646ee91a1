import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { projectQuery } from '../../data/queries.ts'

interface BreadcrumbsProps {
  readonly projectId: string
  /** The list that holds the resource. */
  readonly list: {
    readonly label: string
    readonly to: '/projects/$projectId' | '/projects/$projectId/deployments' | '/projects/$projectId/databases'
  }
  readonly resourceId: string
}

/** Links from a resource up to its list and its project. */
export function Breadcrumbs({ projectId, list, resourceId }: BreadcrumbsProps) {
  const project = useQuery(projectQuery(projectId))
  return (
    <>
      <Link to="/projects/$projectId" params={{ projectId }} className="hover:text-ink">
        {project.data?.name ?? 'Project'}
      </Link>{' '}
      /{' '}
      <Link to={list.to} params={{ projectId }} className="hover:text-ink">
        {list.label}
      </Link>{' '}
      / <code className="text-[13px]">{resourceId}</code>
    </>
  )
}
