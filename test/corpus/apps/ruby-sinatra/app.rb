require 'sinatra'

get '/' do
  'Hello from Sinatra'
end

get '/hello/:name' do
  "Hello #{params['name']}!"
end
