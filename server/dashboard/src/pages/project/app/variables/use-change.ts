import { useMutation, useQueryClient } from '@tanstack/react-query'
import type { AppVariables } from '../../../../data/deployments.ts'
import { variablesQuery } from '../../../../data/queries.ts'
import { writeQuery } from '../../../../data/write-query.ts'
import type { AppOfPage } from '../app-of-page.ts'

/** Returns the mutation of a change whose answer is the new state of the variables, which the page shows at once. */
export function useChange<Values = void>(
  app: AppOfPage,
  change: (values: Values) => Promise<AppVariables>,
  onDone?: () => void,
) {
  const queryClient = useQueryClient()
  return useMutation({
    mutationFn: change,
    onSuccess: async (state) => {
      await writeQuery(queryClient, variablesQuery(app.projectId, app.appId), state)
      onDone?.()
    },
  })
}
