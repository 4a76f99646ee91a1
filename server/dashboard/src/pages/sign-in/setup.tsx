import { ApiError } from '@fairlead/server/client'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { door } from '../../data/client.ts'
import { TextField } from '../../ui/forms/field.tsx'
import { Form, secretOf, textOf } from '../../ui/forms/form.tsx'
import { Queried } from '../../ui/page/query-view.tsx'
import { Door } from './sign-in-frame.tsx'

/** Makes a user by a one-time link. Its token is in the fragment of the address, which browsers do not send. */
export function Setup() {
  const [token] = useState(() => location.hash.slice(1))
  const navigate = useNavigate()
  const queries = useQueryClient()
  const link = useQuery({
    queryKey: ['setup', token],
    queryFn: ({ signal }) => door.setup.check({ body: { token }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const complete = useMutation({
    mutationFn: (values: FormData) =>
      door.setup.complete({
        body: { token, email: textOf(values, 'email'), password: secretOf(values, 'password') },
      }),
    onSuccess: () => {
      // What is known of anybody before. The link is used up now, and is not asked for again.
      queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'setup' })
      void navigate({ to: '/get-started', replace: true })
    },
  })
  if (link.error instanceof ApiError && link.error.code === 'not_found') {
    return (
      <Door title="No such link" lead="This link is used up or too old.">
        <p className="mb-2">
          On the server, <code>npx fairlead users setup-link</code> makes a new one.
        </p>
        <p>
          Who is a user already can{' '}
          <Link to="/sign-in" className="text-accent underline">
            sign in
          </Link>
          .
        </p>
      </Door>
    )
  }
  return (
    <Door title="Welcome" lead="Choose how you will sign in.">
      <Queried query={link} what="the link">
        {({ account }) => (
          <Form sending={complete} submit="Create user">
            <p>
              You will be a user of the account <strong>{account.name}</strong>.
            </p>
            <TextField label="E-mail" name="email" type="email" autoComplete="username" />
            <TextField
              label="Password"
              name="password"
              type="password"
              autoComplete="new-password"
              hint="At least 12 characters."
            />
          </Form>
        )}
      </Queried>
    </Door>
  )
}
