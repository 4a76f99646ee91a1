# frozen_string_literal: true

require 'socket'

$stdout.sync = true
server = TCPServer.new('0.0.0.0', Integer(ENV.fetch('PORT')))
puts 'listening'
loop do
  Thread.new(server.accept) do |client|
    # The headers end with an empty line.
    nil until client.gets.to_s.strip.empty?
    body = "Hello from Ruby #{RUBY_VERSION}"
    client.write "HTTP/1.1 200 OK\r\nContent-Length: #{body.bytesize}\r\nConnection: close\r\n\r\n#{body}"
    client.close
  end
end
