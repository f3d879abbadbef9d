// A source that takes a compiler a second: containers, expressions, algorithms.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

int main()
{
    std::map<std::string, std::vector<int>> words;
    std::unordered_map<int, std::function<int(int)>> calls;
    for (int i = 0; i < 1000; i++) {
        words[std::to_string(i % 37)].push_back(i);
        calls[i % 11] = [i](int x) { return x * i; };
    }
    const std::regex digits("([0-9]+)-([0-9]+)");
    long total = 0;
    for (auto &[text, list] : words) {
        std::sort(list.begin(), list.end(), std::greater<>());
        std::smatch match;
        const std::string pair = text + "-" + std::to_string(list.front());
        if (std::regex_match(pair, match, digits))
            total += std::stol(match[2]) + calls[list.back() % 11](2);
    }
    std::cout << total << "\n";
}
