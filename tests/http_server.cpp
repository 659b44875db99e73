#include "http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace spool::test {
namespace {

void send_all(int client, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(client, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

}  // namespace

HttpServer::HttpServer(std::string content)
    : body(std::move(content)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener_ < 0 || ::bind(listener_, generic, length) != 0 || ::listen(listener_, 8) != 0 ||
      ::getsockname(listener_, generic, &length) != 0)
    throw std::runtime_error("the test server cannot listen on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  ::shutdown(listener_, SHUT_RDWR);  // ends accept()
  thread_.join();
  ::close(listener_);
}

std::vector<std::size_t> HttpServer::starts() const {
  std::lock_guard lock(mutex_);
  return starts_;
}

void HttpServer::serve() {
  for (;;) {
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    answer(client);
    ::shutdown(client, SHUT_RDWR);
    ::close(client);
  }
}

void HttpServer::answer(int client) {
  std::string request;
  char buffer[4096];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t n = ::recv(client, buffer, sizeof(buffer), 0);
    if (n <= 0) return;
    request.append(buffer, static_cast<std::size_t>(n));
  }
  const std::size_t range = request.find("Range: bytes=");
  const std::size_t start = range == std::string::npos ? 0 : static_cast<std::size_t>(std::atoll(request.c_str() + range + 13));
  {
    std::lock_guard lock(mutex_);
    starts_.push_back(start);
  }
  if (status)
    return send_all(client, "HTTP/1.1 " + std::to_string(status) + " No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  const bool partial = ranges && range != std::string::npos;
  if (partial && start >= body.size())
    return send_all(client, "HTTP/1.1 416 Beyond\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  std::string part = partial ? body.substr(start) : body;
  std::string head = partial ? "HTTP/1.1 206 Partial\r\nContent-Range: bytes " + std::to_string(start) + "-" +
                                   std::to_string(body.size() - 1) + "/" + std::to_string(body.size()) + "\r\n"
                             : "HTTP/1.1 200 OK\r\n";
  if (announce_size) head += "Content-Length: " + std::to_string(part.size()) + "\r\n";
  if (cut_after && cuts > 0) {
    --cuts;
    part.resize(std::min<std::size_t>(part.size(), cut_after));
  }
  send_all(client, head + "Connection: close\r\n\r\n" + part);
}

}  // namespace spool::test
