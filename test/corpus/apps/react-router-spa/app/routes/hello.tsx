import { useParams } from 'react-router'

export default function Hello() {
  const { name } = useParams()
  return <p>Hello, {name}</p>
}
