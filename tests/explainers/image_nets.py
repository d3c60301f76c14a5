"""Small networks for tests of explainers of images."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """A residual block with BatchNorm; `inplace` writes into its inputs."""

    def __init__(self, channels, inplace=False):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU(inplace)
        self.conv2, self.bn2 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.relu2 = nn.ReLU(inplace)
        self.inplace = inplace

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        if self.inplace:
            y += x
        else:
            y = y + x
        return self.relu2(y)


class ResNet(nn.Module):
    def __init__(self, outputs=4, inplace=False, channels=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace))
        self.layer1 = nn.Sequential(Block(8, inplace), Block(8, inplace))
        self.down = nn.MaxPool2d(2)
        self.layer2 = nn.Sequential(Block(8, inplace), Block(8, inplace))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8, outputs)

    def forward(self, x):
        return self.fc(self.pool(self.layer2(self.down(self.layer1(self.stem(x))))).flatten(1))


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """Patches of 4 x 4, a class token, three blocks; the head reads the class token or the mean of the patches."""

    def __init__(self, head="class", width=8, outputs=3):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.blocks = nn.ModuleList([Encoder(width) for _ in range(3)])
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, outputs)
        self.head = head

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), tokens], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        tokens = self.norm(tokens)
        return self.fc(tokens[:, 0] if self.head == "class" else tokens[:, 1:].mean(dim=1))


def settled(module, channels=3, side=16):
    """With running statistics of its own, in evaluation mode."""
    module.train()
    with torch.no_grad():
        module(torch.rand(32, channels, side, side, generator=torch.Generator().manual_seed(1)))
    return module.eval()


def resnet(**options):
    torch.manual_seed(0)
    return settled(ResNet(**options), channels=options.get("channels", 3))


def vit(**options):
    torch.manual_seed(0)
    return ViT(**options).eval()


def photos(n=3, channels=3, side=16, seed=0):
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(seed))
