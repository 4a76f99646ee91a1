import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'

const pageSize = 1000

export const projectsQuery = queryOptions({
  queryKey: ['projects'],
  queryFn: ({ signal }) => api.projects.list({ query: { limit: pageSize }, signal }),
})

export const projectQuery = (id: string) =>
  queryOptions({
    queryKey: ['projects', id],
    queryFn: ({ signal }) => api.projects.get({ params: { project_id: id }, signal }),
  })
